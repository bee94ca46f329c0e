package batch

import "strconv"

// Codec is how the records of a batch are compressed, as Kafka numbers it.
type Codec uint8

// The codecs of format v2.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2 // blocks in xerial framing when written here; raw is read too
	LZ4    Codec = 3 // frame format
	Zstd   Codec = 4
)

var codecNames = [...]string{None: "none", Gzip: "gzip", Snappy: "snappy", LZ4: "lz4", Zstd: "zstd"}

// Known reports whether there is a codec of this number.
func (c Codec) Known() bool { return int(c) < len(codecNames) }

// String returns the name that Kafka's configs use, or "codec-n".
func (c Codec) String() string {
	if c.Known() {
		return codecNames[c]
	}
	return "codec-" + strconv.Itoa(int(c))
}

// ParseCodec returns the codec that a config names. "uncompressed", as topics
// call it, is None, as producers call it.
func ParseCodec(name string) (c Codec, ok bool) {
	if name == "uncompressed" {
		return None, true
	}
	for c, n := range codecNames {
		if n == name {
			return Codec(c), true
		}
	}
	return None, false
}

// DefaultLevel asks for the default compression level of a codec. Other levels
// are those of Kafka's configs: 1 to 9 for gzip, 1 to 17 for LZ4, -131072 to 22
// for zstd; Snappy has none. Levels outside the range count as its nearest end,
// and each is served by the nearest that the implementation has.
const DefaultLevel = 0
