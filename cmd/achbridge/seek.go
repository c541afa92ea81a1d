package main

import (
	"context"

	"golang.org/x/sync/errgroup"
)

func (d *running) discover(ctx context.Context, group *errgroup.Group) {
}
