package plots

import (
	"math"
	"strconv"
)

// The units that several quantities have.
const (
	perSecond      = "messages/s"
	bytesPerSecond = "B/s"
	perMessage     = "B/message"
)

// scale is a unit in which people read a quantity: what is shown is the value
// divided by factor.
type scale struct {
	unit   string
	factor float64
}

// scaleFor is the unit in which numbers up to most of a quantity are read best;
// with 0, that of columns of numbers of any size.
// Rates are in powers of ten (MB), memory in powers of two (MiB).
func (q Quantity) scaleFor(most float64) scale {
	unit := q.Unit()
	switch unit {
	case "":
		return scale{"%", 0.01}
	case bytesPerSecond:
		if most > 0 && most < 1e5 {
			return scale{"kB/s", 1e3}
		}
		return scale{"MB/s", megabyte}
	case "s":
		return secondsScale(most)
	case "B":
		return memoryScale(most)
	}
	return scale{unit, 1}
}

func secondsScale(most float64) scale {
	switch {
	case most < 1e-3:
		return scale{"µs", 1e-6}
	case most < 1:
		return scale{"ms", 1e-3}
	}
	return scale{"s", 1}
}

func memoryScale(most float64) scale {
	if most >= 4<<30 {
		return scale{"GiB", 1 << 30}
	}
	return scale{"MiB", 1 << 20}
}

// changing says whether values of the quantity are read best each in a unit of
// its own, so that a table has the unit in the cell and not in the head.
func (q Quantity) changing() bool { return q.Unit() == "s" || q.Unit() == "B" }

// head is the quantity as the head of a column.
func (q Quantity) head() string {
	if q.changing() {
		return string(q)
	}
	return string(q) + ", " + q.scaleFor(0).unit
}

// cell is a value below such a head.
func (q Quantity) cell(v float64) string {
	if q.changing() {
		return Show(q, v)
	}
	return short(v / q.scaleFor(0).factor)
}

// Show writes a value of a quantity with its unit, for people: "1.25 ms", "118
// MB/s", "12.3 %".
func Show(q Quantity, v float64) string {
	s := q.scaleFor(math.Abs(v))
	return short(v/s.factor) + " " + s.unit
}

// short writes a number to three digits, and small ones to two: a page in ten
// million messages is not nothing.
func short(v float64) string {
	switch {
	case v < 0:
		return "-" + short(-v)
	case v > 0 && v < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return number(roundTo3(v))
}
