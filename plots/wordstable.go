package plots

// NewWordsTable returns an empty table whose cells are all words, which stand
// left.
func NewWordsTable(head ...string) *Table {
	t := &Table{Head: head, left: map[int]bool{}}
	for i := range head {
		t.left[i] = true
	}
	return t
}
