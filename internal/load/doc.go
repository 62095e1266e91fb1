// Package load drives a transport and says how well it did so. A closed loop holds a number of requests in flight; an
// open loop sends requests at times drawn beforehand. Both record every request as sent, and both measure themselves
// while they do: a rung whose client was the limit says nothing of the server.
//
//	c := load.NewClosed(load.Config{Transport: t, Texts: corpus.At, Deadline: time.Minute})
//	go c.Run(ctx)
//	client, err := c.Hold(ctx, 0, 16, func(r sample.Request) bool { n++; return n == 500 })
//	client, err = c.Hold(ctx, 1, 32, …) // 16 more join, staggered; nobody is drained
//
// What a request's bytes mean is the transport's; whether a rung passed, or the client was the limit, is decided in
// package ladder from the records and the sample.Client handed back here.
package load
