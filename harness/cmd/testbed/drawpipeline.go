package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kafkalab/plots"
)

// What is behind the live cluster (NetDB'11 §4, Figure 3): a mirror copies it to a
// replica cluster of one broker, which a group and a load read.
const (
	drawMirrorGroup    = "mirror"
	drawWarehouseGroup = "warehouse"
)

// drawTopicNames are the names of the topics.
func drawTopicNames() []string {
	var names []string
	for _, t := range drawTopics {
		names = append(names, t.name)
	}
	return names
}

// startPipeline starts what is behind the live cluster, and waits until all has come
// through.
func (c *drawnCluster) startPipeline(ctx context.Context) error {
	fmt.Fprintln(c.std.Err, "Starting a mirror, a replica cluster with a group, and a load.")
	var err error
	if c.replica, err = c.server(ctx, "replica ZooKeeper", "zookeeper", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(c.host.Dir(), "replica-zookeeper")); err != nil {
		return err
	}
	if _, err := c.server(ctx, "replica broker", "broker", "--listen", "127.0.0.1:0", "--log-dir", filepath.Join(c.host.Dir(), "replica-broker"), "--broker-id", "0", "--zk-connect", c.replica,
		"--segment-size", fmt.Sprint(drawSegmentBytes), "--flush-messages", "100", "--flush-interval", "100ms"); err != nil {
		return err
	}
	if _, err := c.program(ctx, nil, "mirror", "mirror", "--source-zk-connect", c.zookeeper, "--zk-connect", c.replica, "--group", drawMirrorGroup, "--whitelist", strings.Join(drawTopicNames(), "|")); err != nil {
		return err
	}
	if err := c.until(ctx, "the replica cluster has everything", c.copied); err != nil {
		return err
	}
	args := []string{"consume", "--zk-connect", c.replica, "--group", drawWarehouseGroup, "--autocommit-interval", "200ms"}
	for _, topic := range drawTopicNames() {
		args = append(args, "--topic", topic)
		if _, err := c.program(ctx, nil, "load of "+topic, "etl", "run", "--zk-connect", c.replica, "--topic", topic, "--out", c.loadDir(), "--interval", "500ms"); err != nil {
			return err
		}
	}
	if _, err := c.program(ctx, nil, "consumer of "+drawWarehouseGroup, args...); err != nil {
		return err
	}
	return c.until(ctx, "everything is loaded and committed", c.loaded)
}

func (c *drawnCluster) loadDir() string { return filepath.Join(c.host.Dir(), "load") }

// copied says what the replica cluster has not.
func (c *drawnCluster) copied(ctx context.Context) (string, error) {
	partitions, err := c.topics(ctx, c.replica)
	if err != nil {
		return "", err
	}
	if missing := notVisible(partitions); missing != "" {
		return "at the replica cluster, " + missing, nil
	}
	return "", nil
}

// loaded says what the group behind the replica cluster has not committed, which
// topic has no loaded file, or what the mirror has not committed.
func (c *drawnCluster) loaded(ctx context.Context) (string, error) {
	for _, of := range []struct{ zookeeper, group string }{{c.replica, drawWarehouseGroup}, {c.zookeeper, drawMirrorGroup}} {
		listed, err := c.listedGroups(ctx, of.zookeeper)
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(listed, func(g listedGroup) bool { return g.Group == of.group }) {
			return fmt.Sprintf("group %s is not in ZooKeeper", of.group), nil
		}
		groups, err := c.groups(ctx, of.zookeeper, of.group)
		if err != nil {
			return "", err
		}
		if len(groups) != 1 || len(groups[0].Partitions) == 0 {
			return fmt.Sprintf("group %s has no partitions", of.group), nil
		}
		for _, p := range groups[0].Partitions {
			if p.Owner == nil || p.Lag == nil || *p.Lag != 0 {
				return fmt.Sprintf("group %s has not committed all of %s %d-%d", of.group, p.Topic, p.BrokerID, p.Partition), nil
			}
		}
	}
	for _, topic := range drawTopicNames() {
		found := false
		err := filepath.WalkDir(filepath.Join(c.loadDir(), topic), func(path string, d os.DirEntry, err error) error {
			found = found || err == nil && !d.IsDir() && strings.HasSuffix(path, ".gz")
			return nil // what is not there yet will be
		})
		if err != nil {
			return "", err
		}
		if !found {
			return fmt.Sprintf("no file of %s is loaded", topic), nil
		}
	}
	return "", nil
}

// readReplica adds the replica cluster to a topology, with what connects it.
func (c *drawnCluster) readReplica(ctx context.Context, t *plots.Topology) error {
	replica, _, err := c.readCluster(ctx, "replica", c.replica, drawWarehouseGroup)
	if err != nil {
		return err
	}
	replica.Loads = []plots.Load{{Name: "load into files", Topics: drawTopicNames()}}
	t.Clusters = append(t.Clusters, replica)
	t.Mirrors = []plots.Mirror{{From: "live", To: "replica", Topics: drawTopicNames()}}
	t.Note += " The mirror is the group " + drawMirrorGroup + " of the live cluster. Of the load ZooKeeper knows nothing: it keeps its offsets with its files."
	return nil
}
