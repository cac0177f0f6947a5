package schema

// Mode says what may be changed.
type Mode string

// The modes of a subject, or of all.
const (
	ReadWrite Mode = "READWRITE"
	ReadOnly  Mode = "READONLY"
	Import    Mode = "IMPORT" // registrations name id and version themselves, as when a registry is copied
)

// ParseMode reads the name of a mode.
func ParseMode(name string) (Mode, error) {
	switch m := Mode(name); m {
	case ReadWrite, ReadOnly, Import:
		return m, nil
	}
	return "", errorf(CodeInvalidMode, "Invalid mode %.40q. Valid values are READWRITE, READONLY, and IMPORT", name)
}
