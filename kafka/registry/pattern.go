package registry

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// MaxPatternBytes is how long the pattern of a subscription may be (inclusive).
const MaxPatternBytes = 16 << 10

// pattern is a regular expression for whole names of topics.
type pattern struct {
	text  string // normalised
	whole *regexp.Regexp
}

func (p pattern) matches(topic string) bool { return p.whole.MatchString(topic) }

// normalise turns what a user gives as a list of topics into a regular expression,
// as 0.7 does it. What comes out is not changed by doing it again, but for control
// characters at the ends, which compilePattern refuses.
func normalise(expression string) string {
	s := strings.TrimFunc(expression, func(r rune) bool { return r <= ' ' }) // Java's trim
	s = strings.NewReplacer(",", "|", " ", "").Replace(s)
	return strings.Trim(s, `"'`)
}

// CheckPattern reports why a regular expression is not taken as the pattern of a
// [WhiteList] or a [BlackList], or nil.
//
// All members of a group must take the same topics from a pattern, those of 0.7
// too, which read it as one of Java. Ours read it as RE2, Go's. The two agree on
// every expression that is taken, for topics whose names are ASCII; what either of
// them does not know, or means differently, is refused:
//
//   - what RE2 does not have: look-ahead and look-behind, back references, atomic
//     groups, possessive quantifiers (a++), \G \Z \R \X \h \H \e \c \N \u, and
//     repetitions of more than 1000;
//   - what Java does not have, or not in all versions: groups with names, scripts
//     as \p{Greek} (Java writes \p{IsGreek}), a '{' that begins no repetition, which
//     {2,3} does not either, since its ',' becomes '|';
//   - what both have and mean differently: classes inside of classes and their
//     intersection ([a[bc]], [a-z&&[aeiou]], [[:alpha:]]), a class that begins
//     with ']', digits behind a backslash, \v and \V, the flag U, a repetition
//     behind flags (a(?i)*); and the flag i where the pattern has \p, or letters
//     that are not ASCII;
//   - what would take more than a few megabytes to compile, such as repetitions of
//     repetitions of hundreds.
//
// In names that are not ASCII, \b and "." differ at a few signs: Java knows more
// letters and ends of lines. Nothing in a pattern may be a control character.
func CheckPattern(expression string) error {
	_, err := compilePattern(expression)
	return err
}

// compilePattern normalises and compiles.
func compilePattern(expression string) (pattern, error) {
	text := normalise(expression)
	if len(text) > MaxPatternBytes {
		return pattern{}, fmt.Errorf("pattern for topics of %d bytes: at most %d are possible", len(text), MaxPatternBytes)
	}
	whole, err := compileWhole(text)
	if err != nil {
		return pattern{}, fmt.Errorf("pattern for topics %.100q: %w", text, err)
	}
	return pattern{text: text, whole: whole}, nil
}

func compileWhole(text string) (*regexp.Regexp, error) {
	if strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return nil, errors.New("it holds a control character, which no topic has")
	}
	if err := checkDialect(text); err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	var bad *syntax.Error
	if errors.As(err, &bad) && bad.Code == syntax.ErrMissingRepeatArgument && strings.HasPrefix(bad.Expr, "*") {
		return nil, fmt.Errorf("%v: %.60q: any letters are \".*\"", bad.Code, bad.Expr)
	}
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("%v: %.60q (it must be one of RE2: look-around, back references and possessive quantifiers are not possible)", bad.Code, bad.Expr)
	}
	if err != nil {
		return nil, err
	}
	if weight(parsed) > maxWeight {
		return nil, errors.New("it repeats too much, or has too many classes, to be matched against every topic")
	}
	// In the form of the parser, as a \Q without its \E would swallow the end.
	return regexp.Compile(`\A(?:` + parsed.String() + `)\z`)
}

// maxWeight bounds what a pattern compiles to: far more than the names of
// thousands of topics, far less than what nested repetitions can amount to.
const maxWeight = 100_000

// weight estimates the instructions and ranges of signs of a compiled pattern, and
// stops counting when they are too many.
func weight(re *syntax.Regexp) int {
	w := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		if w += weight(sub); w > maxWeight {
			return w
		}
	}
	if re.Op == syntax.OpRepeat {
		w *= max(re.Min, re.Max, 1)
	}
	return w
}

// dialect walks through a pattern and looks for what Java and RE2 would both
// compile, to different ends, or Java would not compile at all.
type dialect struct {
	rest    string
	inClass bool
}

// checkDialect refuses what only RE2 takes, or takes otherwise than Java.
func checkDialect(text string) error {
	d := dialect{rest: text}
	for d.rest != "" {
		if err := d.step(); err != nil {
			return err
		}
	}
	if foldsCase(text) && (strings.Contains(text, `\p`) || strings.Contains(text, `\P`) ||
		strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) >= 0) {
		return errors.New("the flag i counts for ASCII letters alone in Java, and the pattern has others, or \\p")
	}
	return nil
}

// step takes one sign, or what belongs together, off the pattern.
func (d *dialect) step() error {
	switch {
	case d.rest[0] == '\\':
		return d.escape()
	case d.inClass:
		return d.class()
	case d.rest[0] == '[':
		d.inClass = true
		d.rest = strings.TrimPrefix(d.rest[1:], "^")
		if strings.HasPrefix(d.rest, "]") {
			return errors.New("a class that begins with ']' means something else in Java: write \\]")
		}
		return nil
	case strings.HasPrefix(d.rest, "(?"):
		return d.group()
	case d.rest[0] == '{':
		return d.repetition()
	}
	d.rest = d.rest[1:]
	return nil
}

func (d *dialect) class() error {
	switch {
	case d.rest[0] == '[':
		return errors.New("a class inside of a class ([…[…]…]) means something else in Java: write \\[ for the sign")
	case strings.HasPrefix(d.rest, "&&"):
		return errors.New("&& in a class is an intersection in Java, which RE2 does not have")
	case d.rest[0] == ']':
		d.inClass = false
	}
	d.rest = d.rest[1:]
	return nil
}

// escape takes a backslash and what it stands before.
func (d *dialect) escape() error {
	if len(d.rest) < 2 {
		return errors.New("it ends with a backslash")
	}
	sign := d.rest[1]
	d.rest = d.rest[2:]
	switch {
	case sign >= '0' && sign <= '9':
		return fmt.Errorf("\\%c is a back reference or an octal number, which Java and RE2 read differently", sign)
	case sign == 'v' || sign == 'V':
		return fmt.Errorf("\\%c means different things in Java and RE2", sign)
	case sign == 'Q' && !d.inClass:
		_, after, ended := strings.Cut(d.rest, `\E`)
		if !ended {
			return errors.New("\\Q without \\E")
		}
		d.rest = after
	case sign == 'p' || sign == 'P':
		return d.property()
	case sign == 'x':
		return d.skipBraces()
	}
	return nil
}

// generalCategories are the names of Unicode's general categories, which both
// know. RE2 knows scripts too, which Java calls by other names.
const generalCategories = " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co "

// property takes the name behind \p or \P.
func (d *dialect) property() error {
	name := ""
	if strings.HasPrefix(d.rest, "{") {
		inside, after, ended := strings.Cut(d.rest[1:], "}")
		if !ended {
			return errors.New("\\p{ without }")
		}
		name, d.rest = inside, after
	} else if d.rest != "" {
		name, d.rest = d.rest[:1], d.rest[1:]
	}
	if !strings.Contains(generalCategories, " "+name+" ") || name == "" {
		return fmt.Errorf("\\p{%.20s}: only the general categories of Unicode, such as \\p{Lu}, have the same name in Java and RE2", name)
	}
	return nil
}

// skipBraces takes the braces of \x{…}.
func (d *dialect) skipBraces() error {
	if !strings.HasPrefix(d.rest, "{") {
		return nil
	}
	_, after, ended := strings.Cut(d.rest, "}")
	if !ended {
		return errors.New("\\x{ without }")
	}
	d.rest = after
	return nil
}

// group takes the beginning of a group that has flags.
func (d *dialect) group() error {
	flags := d.rest[2:]
	if strings.HasPrefix(flags, "P") || strings.HasPrefix(flags, "<") {
		return errors.New("groups with names and look-behind are not possible")
	}
	end := strings.IndexFunc(flags, func(r rune) bool { return !strings.ContainsRune("imsU-", r) })
	if end < 0 {
		end = len(flags)
	}
	if strings.Contains(flags[:end], "U") {
		return errors.New("the flag U means different things in Java and RE2")
	}
	d.rest = flags[end:]
	if after, alone := strings.CutPrefix(d.rest, ")"); alone && after != "" && strings.Contains("*+?{", after[:1]) {
		return errors.New("a repetition behind flags repeats nothing in Java, and what comes before them in RE2")
	}
	return nil
}

var (
	repetition = regexp.MustCompile(`^\{[0-9]+\}`)
	caseFlag   = regexp.MustCompile(`\(\?[ms]*i`)
)

// repetition takes {n}. There is no {n,m}, as ',' has become '|'.
func (d *dialect) repetition() error {
	found := repetition.FindString(d.rest)
	if found == "" {
		return errors.New("'{' that begins no repetition such as {2} (there is no {2,3}, as ',' stands for '|'): write \\{ for the sign")
	}
	d.rest = d.rest[len(found):]
	return nil
}

// foldsCase tells whether a pattern may have the flag i. It may say so wrongly,
// of text that is escaped.
func foldsCase(text string) bool { return caseFlag.MatchString(text) }
