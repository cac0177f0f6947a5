package coord

import "reflect"

// ArmedInLibrary returns how many channels the library keeps for watches.
func ArmedInLibrary(s *Session) int {
	n := 0
	for _, channels := range reflect.ValueOf(s.conn).Elem().FieldByName("watchers").Seq2() {
		n += channels.Len()
	}
	return n
}

// queued returns how many requests the library has taken and not sent.
func (s *Session) queued() int {
	return reflect.ValueOf(s.conn).Elem().FieldByName("sendChan").Len()
}
