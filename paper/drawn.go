package paper

import (
	"path/filepath"

	"kafkalab/plots"
)

// DrawnPart is a folder of drawings in a report: the paper's figures that show
// how a system is put together, made from a live one.
type DrawnPart struct {
	Name     string // of the folder
	Anchor   string // in the page
	Link     string // to it, relative to the report's folder, with a slash at its end
	Drawings []plots.Drawing

	dir string
}

func newDrawnPart(dir, link string) (DrawnPart, error) {
	drawings, err := plots.LiveDrawings(dir)
	if err != nil {
		return DrawnPart{}, err
	}
	return DrawnPart{Name: filepath.Base(dir), Link: link, Drawings: drawings, dir: dir}, nil
}

// drawnNote says what the drawings are.
const drawnNote = "The paper's Figures 1, 2 and 3 are drawings of a design. These are made from a live system: what ZooKeeper holds of brokers, partitions, owners and offsets, and the files of a log with the broker's list of them."
