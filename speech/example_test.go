package speech_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"loadline/speech"
)

// The server of these examples spells: 10 ms a letter.

func ExampleClient_Synthesize() {
	server := serving()
	defer server.stop()

	c, err := speech.New(speech.Options{URL: server.URL + "/invocations"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	reply, err := c.Synthesize(context.Background(), "Your table is ready.")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Duration, "at", reply.Rate, "Hz,", len(reply.WAV), "bytes of WAV")
	// Output: 200ms at 24000 Hz, 9644 bytes of WAV
}

func ExampleClient_Stream() {
	server := serving()
	defer server.stop()

	c, err := speech.New(speech.Options{URL: server.ws(), Retry: speech.Retry{Tries: 5}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	s, err := c.Stream(context.Background(), "Good evening. Your table is ready.")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	player := io.Discard // whatever plays samples as they come
	n, err := io.Copy(player, s)
	fmt.Println(n, "bytes of", s.Format().Bits, "bits,", err)
	// Output: 15840 bytes of 16 bits, <nil>
}

func ExampleClient_Session() {
	server := serving()
	defer server.stop()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := speech.New(speech.Options{URL: server.ws()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	s, err := c.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	turn, err := s.Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { // a language model writes
		for _, word := range []string{"Your table ", "is ready. ", "Follow me."} {
			io.WriteString(turn, word)
		}
		turn.End()
	}()
	b, err := io.ReadAll(turn)
	fmt.Printf("%q, %v\n", heard(b), err)
	fmt.Println("closed:", s.Close())
	// Output:
	// "Your table is ready.Follow me.", <nil>
	// closed: <nil>
}

func ExampleError() {
	c, err := speech.New(speech.Options{URL: "http://127.0.0.1:1/", Retry: speech.Retry{Tries: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = c.Synthesize(context.Background(), "Hello?")
	var e *speech.Error
	switch {
	case errors.Is(err, speech.ErrSaturated):
		fmt.Println("busy")
	case errors.As(err, &e) && e.Retryable():
		fmt.Println("later:", err)
	}
	// Output: later: speech: server: connection refused
}
