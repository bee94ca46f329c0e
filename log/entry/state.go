package entry

// Writer is the state batch that an applier writes to: durable, ordered keys
// and values that take effect together with the applied index, or not at all.
// Keys begin with one byte that names the part they belong to (log/state lists
// them). Keys and values are copied before the call returns. A Writer belongs
// to the apply loop and is used by no other goroutine.
type Writer interface {
	Set(key, value []byte)
	Delete(key []byte)
	// DeleteRange deletes all keys k with from <= k < to.
	DeleteRange(from, to []byte)
}

// Reader reads the state as of the newest applied entry, including what the
// current state batch has not committed yet. It belongs to the apply loop.
type Reader interface {
	// Get returns the value of key; it is valid until the next call.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls visit for each key k with from <= k < to, in order, until visit
	// returns false. Key and value are valid only during the call.
	Scan(from, to []byte, visit func(key, value []byte) bool) error
}
