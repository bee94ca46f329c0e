package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/protocol/batch"
)

type logCommand struct {
	Verify verifyCommand `cmd:"" help:"Check every byte of a data folder, and change nothing. Exits with 2 if there is damage."`
	Dump   dumpCommand   `cmd:"" help:"Print the entries of a data folder's log, oldest first."`
}

const damaged = 2 // exit code

type verifyCommand struct {
	Dir    string `arg:"" type:"existingdir" help:"The data folder."`
	Output string `enum:"text,json" default:"text" help:"How to print: ${enum}."`
}

// verdict is what verify prints.
type verdict struct {
	Dir       string      `json:"dir"`
	Segments  int         `json:"segments"`
	Entries   int64       `json:"entries"`
	Bytes     int64       `json:"bytes"`
	First     entry.Index `json:"first_index"`
	Last      entry.Index `json:"last_index"`
	Durable   entry.Index `json:"durable_index"`
	Gaps      int         `json:"gaps"`
	Indexes   int         `json:"index_files"`
	TornTail  string      `json:"torn_tail,omitempty"`
	Damage    []string    `json:"damage"`
	Undamaged bool        `json:"ok"`
}

// Run reads the log and the index files of sealed segments. It takes no lock:
// the tail of a log that is being written to may look torn.
func (v *verifyCommand) Run() error {
	fs, dir := vfs.Disk(), filepath.Join(v.Dir, "commitlog")
	out := verdict{Dir: v.Dir, Damage: []string{}}
	sum, err := commitlog.Walk(fs, dir, 0, func(f *commitlog.Found) error {
		switch {
		case f.Damage == nil:
		case f.Tail:
			out.TornTail = f.Damage.Error()
		default:
			out.Damage = append(out.Damage, f.Damage.Error())
		}
		return nil
	})
	if err != nil {
		return err
	}
	out.Segments, out.Entries, out.Bytes = sum.Segments, sum.Entries, sum.Bytes
	out.First, out.Last, out.Durable, out.Gaps = sum.First, sum.Last, sum.Bound, sum.Gaps
	indexed, err := consumequeue.List(fs, dir)
	if err != nil {
		return err
	}
	for _, number := range indexed {
		out.Indexes++
		if err := verifyIndex(fs, dir, number); err != nil {
			out.Damage = append(out.Damage, err.Error())
		}
	}
	out.Undamaged = len(out.Damage) == 0
	if err := v.print(&out); err != nil {
		return err
	}
	if !out.Undamaged {
		return exitError{errors.New("the data folder is damaged"), damaged}
	}
	return nil
}

// verifyIndex checks the index file of a segment. It goes before its segment does
// when that is freed.
func verifyIndex(fs *vfs.FS, dir string, number uint32) error {
	name := fs.Join(dir, segment.FileName(number))
	log, err := fs.Open(name)
	if vfs.NotExist(err) {
		return fmt.Errorf("%s is missing, but its index file is there", name)
	}
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	file, err := consumequeue.Open(fs, dir, number)
	if err != nil {
		return err
	}
	defer file.Release()
	return file.Verify()
}

func (v *verifyCommand) print(out *verdict) error {
	if v.Output == "json" {
		return printJSON(out)
	}
	fmt.Printf("%s: %d segments, %d entries (%d to %d, durable to %d), %d bytes, %d index files\n",
		out.Dir, out.Segments, out.Entries, out.First, out.Last, out.Durable, out.Bytes, out.Indexes)
	if out.Gaps > 0 {
		fmt.Printf("%d gaps between segments, where some were freed\n", out.Gaps)
	}
	if out.TornTail != "" {
		fmt.Println("torn tail, which the next start cuts off:", out.TornTail)
	}
	for _, damage := range out.Damage {
		fmt.Println("damage:", damage)
	}
	if out.Undamaged {
		fmt.Println("ok")
	}
	return nil
}

type dumpCommand struct {
	Dir    string      `arg:"" type:"existingdir" help:"The data folder."`
	From   entry.Index `default:"0" help:"The first entry to print, by its index."`
	Limit  int         `default:"0" help:"How many entries to print; 0 for all."`
	Output string      `enum:"text,json" default:"text" help:"How to print: ${enum}. json gives one object a line."`
}

// dumped is what dump prints of an entry.
type dumped struct {
	Index     entry.Index     `json:"index"`
	Pos       string          `json:"pos"`
	Term      entry.Term      `json:"term"`
	Time      string          `json:"time"`
	Type      string          `json:"type"`
	Partition entry.Partition `json:"partition"`
	Bytes     int             `json:"bytes"`
	Batch     *dumpedBatch    `json:"batch,omitempty"`
	Damage    string          `json:"damage,omitempty"`
}

// dumpedBatch is what dump prints of a record batch.
type dumpedBatch struct {
	Records      int32  `json:"records"`
	Codec        string `json:"codec"`
	MaxTimestamp int64  `json:"max_timestamp"`
	ProducerID   int64  `json:"producer_id"`
	Epoch        int16  `json:"producer_epoch"`
	BaseSequence int32  `json:"base_sequence"`
}

var errEnough = errors.New("enough")

// Run prints the entries.
func (d *dumpCommand) Run() error {
	printed := 0
	_, err := commitlog.Walk(vfs.Disk(), filepath.Join(d.Dir, "commitlog"), d.From, func(f *commitlog.Found) error {
		if d.Limit > 0 && printed == d.Limit {
			return errEnough
		}
		printed++
		return d.print(f)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (d *dumpCommand) print(f *commitlog.Found) error {
	e := &f.Entry
	out := dumped{Index: e.Index, Pos: f.Pos.String(), Term: e.Term, Time: e.Time.Go().Format("2006-01-02T15:04:05.000Z"),
		Type: e.Type.String(), Partition: e.Partition, Bytes: len(e.Payload)}
	if f.Damage != nil {
		out = dumped{Pos: f.Pos.String(), Type: "damage", Damage: f.Damage.Error()}
	}
	if head := batch.Header(e.Payload); f.Damage == nil && e.Type == entry.TypeProduce && len(head) >= batch.HeaderSize {
		out.Batch = &dumpedBatch{head.Count(), head.Codec().String(), head.MaxTimestamp(), head.ProducerID(), head.ProducerEpoch(), head.BaseSequence()}
	}
	if d.Output == "json" {
		return printJSONLine(out)
	}
	switch {
	case f.Damage != nil:
		fmt.Printf("%-14s damage: %v\n", out.Pos, f.Damage)
	case out.Batch != nil:
		fmt.Printf("%-14s %8d  %s  %-20s partition %d, %d records, %s, %d bytes, producer %d/%d sequence %d\n", out.Pos, out.Index, out.Time,
			out.Type, out.Partition, out.Batch.Records, out.Batch.Codec, out.Bytes, out.Batch.ProducerID, out.Batch.Epoch, out.Batch.BaseSequence)
	default:
		fmt.Printf("%-14s %8d  %s  %-20s %d bytes\n", out.Pos, out.Index, out.Time, out.Type, out.Bytes)
	}
	return nil
}
