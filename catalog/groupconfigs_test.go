package catalog_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestConfigsOfAGroupGoBeforeTheBrokers(t *testing.T) {
	n := newNode(t, "group.consumer.max.session.timeout.ms", "90000", "group.consumer.session.timeout.ms", "50000")
	if g := n.Group("g"); g.Session != 50*time.Second || g.Heartbeat != 5*time.Second || g.Ordered {
		t.Errorf("%+v", g)
	}
	for _, change := range []catalog.ConfigChange{set("consumer.session.timeout.ms", "80000"), set("ordered", "TRUE")} {
		if err := n.alter(catalog.ResourceGroup, "g", change); err != nil {
			t.Fatal(err)
		}
	}
	check := func(n *node) {
		t.Helper()
		if g := n.Group("g"); g.Session != 80*time.Second || !g.Ordered {
			t.Errorf("%+v", g)
		}
		if g := n.Group("h"); g.Session != 50*time.Second || g.Ordered {
			t.Errorf("%+v", g)
		}
		if all := n.ConfiguredGroups(); !slices.Equal(all, []string{"g"}) {
			t.Errorf("%v", all)
		}
	}
	check(n)
	check(n.reload(n.Broker()))

	entries, err := n.DescribeGroup("g", nil, true)
	if err != nil || len(entries) != len(config.GroupKeys()) {
		t.Fatalf("%+v, %v", entries, err)
	}
	session := find(t, entries, "consumer.session.timeout.ms")
	if session.Value != "80000" || session.Source != config.SourceGroup || len(session.Synonyms) != 3 || session.ReadOnly {
		t.Errorf("%+v", session)
	}
	if heartbeat := find(t, entries, "consumer.heartbeat.interval.ms"); heartbeat.Value != "5000" || heartbeat.Source != config.SourceDefault {
		t.Errorf("%+v", heartbeat)
	}
	if entries, err = n.DescribeGroup("h", []string{"ordered"}, false); err != nil || len(entries) != 1 || entries[0].Value != "false" {
		t.Errorf("%+v, %v", entries, err)
	}

	if err := n.replace(catalog.ResourceGroup, "g", set("ordered", "true")); err != nil {
		t.Fatal(err)
	}
	if g := n.Group("g"); g.Session != 50*time.Second || !g.Ordered {
		t.Errorf("%+v", g)
	}
	if err := n.alter(catalog.ResourceGroup, "g", unset("ordered")); err != nil {
		t.Fatal(err)
	}
	if all := n.reload(n.Broker()).ConfiguredGroups(); len(all) != 0 {
		t.Errorf("%v", all)
	}
}

func TestConfigsOfGroupsAreRefused(t *testing.T) {
	n := newNode(t)
	wantCode(t, n.alter(catalog.ResourceGroup, "", set("ordered", "true")), kerr.InvalidRequest)
	wantCode(t, n.alter(catalog.ResourceGroup, "g", set("orderd", "true")), kerr.InvalidConfig)
	wantCode(t, n.alter(catalog.ResourceGroup, "g", set("ordered", "maybe")), kerr.InvalidConfig)
	wantCode(t, n.alter(catalog.ResourceGroup, "g", set("consumer.session.timeout.ms", "44999")), kerr.InvalidConfig)
	wantCode(t, n.alter(catalog.ResourceGroup, "g", set("consumer.heartbeat.interval.ms", "15001")), kerr.InvalidConfig)
	if _, err := n.DescribeGroup("", nil, false); kerr.Of(err) != kerr.InvalidRequest {
		t.Error(err)
	}
	if all := n.ConfiguredGroups(); len(all) != 0 {
		t.Errorf("%v", all)
	}
}

func TestVersionGrowsWithEachChangeOfATopic(t *testing.T) {
	n := newNode(t)
	last := n.Version()
	grows := func(what string) {
		t.Helper()
		if v := n.Version(); v <= last {
			t.Errorf("%s: version %d after %d", what, v, last)
		}
		last = n.Version()
	}
	n.mustCreate("a", 1)
	grows("create")
	if err := n.grow("a", 2); err != nil {
		t.Fatal(err)
	}
	grows("grow")
	if err := n.delete("a"); err != nil {
		t.Fatal(err)
	}
	grows("delete")
	if err := n.delete("a"); err == nil || n.Version() != last {
		t.Error("a refusal counts")
	}
}
