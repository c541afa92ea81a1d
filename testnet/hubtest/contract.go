// Package hubtest has the contract of a hub, as tests: whatever brings byte streams and the newest
// frames from host to host for package bridge must pass them.
//
//	func TestHubKeepsTheContract(t *testing.T) {
//		for _, s := range hubtest.Contract {
//			t.Run(s.Name, func(t *testing.T) { s.Run(t, newLab(t)) })
//		}
//	}
//
// The scenarios run over real networks and in testing/synctest bubbles alike.
package hubtest

import (
	"context"
	"net"
	"testing"
	"time"

	"achbridge/bridge/hubway"
)

// Hub is a host's way to others, and Channel the place of a channel's newest frame.
type (
	Hub     = hubway.Hub
	Channel = hubway.Channel
)

// Lab is a hub and what a test may do to it.
type Lab struct {
	// Host connects a host of a new name, and returns when it can be reached.
	Host func(name string) Hub
	// Cut ends the connection of a host and lets it have no other one until Restore, which
	// returns when it can be reached again. They are for scenarios with Cuts.
	Cut, Restore func(name string)
	MaxFrame     int   // bytes of the largest frame
	TooLarge     error // what Put's error wraps for larger ones
	Away         error // what errors wrap that say there is no connection to the hub
}

// Scenario is one behaviour of the contract.
type Scenario struct {
	Name string
	Run  func(*testing.T, *Lab)
	Cuts bool // it needs Lab.Cut and Lab.Restore
}

// Contract is what every hub must do.
var Contract = []Scenario{
	{Name: "StreamCarriesBytesBothWays", Run: streamCarriesBytes},
	{Name: "StreamsKnowTheirHosts", Run: streamsKnowTheirHosts},
	{Name: "ManyStreamsDoNotMix", Run: manyStreams},
	{Name: "WhatWasWrittenBeforeCloseArrives", Run: writtenBeforeClose},
	{Name: "CloseEndsBlockedCalls", Run: closeEndsBlockedCalls},
	{Name: "WriterWaitsForItsReader", Run: writerWaits},
	{Name: "DeadlinesEndCalls", Run: deadlinesEndCalls},
	{Name: "DeadlineThatMovesCounts", Run: deadlineMoves},
	{Name: "DialOfAnAbsentHostFails", Run: dialOfAbsentHost},
	{Name: "AcceptEndsWithItsContext", Run: acceptEnds},
	{Name: "LostConnectionEndsItsStreams", Run: lostConnectionEndsStreams, Cuts: true},
	{Name: "ReaderBeginsWithTheNewest", Run: readerBeginsWithNewest},
	{Name: "ReaderThatKeepsUpMissesNothing", Run: readerKeepsUp},
	{Name: "SlowReaderGetsTheNewest", Run: slowReader},
	{Name: "EachReaderGetsEachFrame", Run: eachReader},
	{Name: "ReaderWaitsForTheFirstFrame", Run: readerWaits},
	{Name: "ChannelsDoNotMix", Run: channelsDoNotMix},
	{Name: "FramesAreWhole", Run: framesAreWhole},
	{Name: "FramesBelongToTheCaller", Run: framesBelongToCaller},
	{Name: "TooLargeFrameIsAnError", Run: tooLarge},
	{Name: "RoomIsThereForTwo", Run: roomForTwo},
	{Name: "ChannelCallsEndWithContextAndClose", Run: channelCallsEnd},
	{Name: "NothingIsKeptToBeSentLater", Run: framesWithoutConnectionAreNotKept, Cuts: true},
	{Name: "ReaderGoesOnAfterACut", Run: readerResumes, Cuts: true},
}

// Adapt makes a Hub of one whose channels have a type of their own.
func Adapt[C Channel](h interface {
	Dial(ctx context.Context, host string) (net.Conn, error)
	Accept(ctx context.Context) (net.Conn, error)
	Channel(host, channel string) C
}) Hub {
	return adapted[C]{h}
}

type adapted[C Channel] struct {
	hub interface {
		Dial(ctx context.Context, host string) (net.Conn, error)
		Accept(ctx context.Context) (net.Conn, error)
		Channel(host, channel string) C
	}
}

func (a adapted[C]) Dial(ctx context.Context, host string) (net.Conn, error) {
	return a.hub.Dial(ctx, host)
}
func (a adapted[C]) Accept(ctx context.Context) (net.Conn, error) { return a.hub.Accept(ctx) }
func (a adapted[C]) Channel(host, channel string) Channel {
	return a.hub.Channel(host, channel)
}

// quietTime is how long a test looks for what must not come.
const quietTime = 100 * time.Millisecond
