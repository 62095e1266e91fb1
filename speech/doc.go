// Package speech is a client of speech endpoints: it has a text spoken, whole or as a stream, or keeps a session open for
// texts that come piece by piece, through any door: a SageMaker endpoint, a server that streams over HTTP, as it is or in
// server-sent events, OpenAI's speech route, or WebSockets.
//
//	c, err := speech.New(speech.Options{URL: "ws://127.0.0.1:8080/"})
//	reply, err := c.Synthesize(ctx, "Your table is ready.")
//	os.WriteFile("ready.wav", reply.WAV, 0o644)
//
// A reply is whole or it is an error, whatever the connection's end looked like; what came of a truncated one comes with
// the error. Errors are *Error and tell by Kind, or by errors.Is, what a caller may do about them. What may be tried again
// is, within a budget that all requests of a client share, so that an endpoint in trouble is not sent more than it was
// before; how long a server asks to be left alone is obeyed, and the rest is drawn at random. A stream that breaks goes on
// where it stood: no sentence is heard twice.
//
// Nothing here records anything; measuring is what tts-bench is for.
package speech
