package commitlog_test

import (
	"strings"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/segment"
)

func TestOpenNamesTheOptionThatIsWrong(t *testing.T) {
	good := options(pebblevfs.NewMem())
	for says, change := range map[string]func(o *commitlog.Options){
		"Options.FS":           func(o *commitlog.Options) { o.FS = nil },
		"Options.Dir":          func(o *commitlog.Options) { o.Dir = "" },
		"Options.Now":          func(o *commitlog.Options) { o.Now = nil },
		"Options.SegmentBytes": func(o *commitlog.Options) { o.SegmentBytes = segment.MinBytes - 1 },
		"1073741825":           func(o *commitlog.Options) { o.SegmentBytes = segment.MaxBytes + 1 },
		"Options.Flush":        func(o *commitlog.Options) { o.Flush = 2 },
		"FlushInterval":        func(o *commitlog.Options) { o.FlushInterval = -time.Second },
		"TailBytes":            func(o *commitlog.Options) { o.TailBytes = -1 },
		"BacklogBytes":         func(o *commitlog.Options) { o.BacklogBytes = -1 },
	} {
		o := good
		change(&o)
		if _, err := commitlog.Open(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, expected %q in it", err, says)
		}
	}
}
