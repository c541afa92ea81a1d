// Package hubtest has the contract tests of a hub, which every implementation of hubway.Hub must
// pass.
//
//	func TestHubContract(t *testing.T) {
//		for _, s := range hubtest.Contract {
//			t.Run(s.Name, func(t *testing.T) { s.Run(t, newLab(t)) })
//		}
//	}
//
// The scenarios run over real networks and in testing/synctest bubbles.
package hubtest

import (
	"context"
	"net"
	"testing"
	"time"

	"achbridge/bridge/hubway"
)

// Hub is a host's connection to a hub, and Channel its view of a channel at the hub.
type (
	Hub     = hubway.Hub
	Channel = hubway.Channel
)

// Lab is a hub, and functions with which a test controls it.
type Lab struct {
	// Host connects a host with a new name, and returns when other hosts can reach it.
	Host func(name string) Hub
	// Cut ends the connection of a host and prevents another one until Restore, which returns
	// when other hosts can reach it again. Only scenarios with Cuts use them.
	Cut, Restore func(name string)
	MaxFrame     int   // size of the largest frame in bytes
	TooLarge     error // wrapped by Put's error for larger frames
	Away         error // wrapped by errors of calls without a connection to the hub
}

// Scenario is one behaviour of the contract.
type Scenario struct {
	Name string
	Run  func(*testing.T, *Lab)
	Cuts bool // needs Lab.Cut and Lab.Restore
}

// Contract has the scenarios that every hub must pass.
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

// Adapt converts a hub with a concrete channel type to a Hub.
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

// quietTime is how long a test waits for a frame that must not arrive.
const quietTime = 100 * time.Millisecond
