//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// serve answers each request after the time that it asks for, over HTTP/1.1 and unencrypted HTTP/2 with at most so many
// streams a connection. It prints its port and ends with its standard input.
func serve(streams int) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	reply := wav(100 * time.Millisecond)
	s := &http.Server{
		Protocols: new(http.Protocols),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: streams},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			ms, _ := strconv.Atoi(r.URL.Query().Get("ms"))
			time.Sleep(time.Duration(ms) * time.Millisecond)
			w.Header().Set("Content-Type", "audio/wav")
			w.Write(reply)
		}),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println(ln.Addr().(*net.TCPAddr).Port)
	return s.Serve(ln)
}

// wav is a file with a tone of that length, 24 kHz, one channel, 16 bits.
func wav(d time.Duration) []byte {
	n := int(24000*d.Seconds()) * 2
	le := binary.LittleEndian
	b := []byte("RIFF")
	b = le.AppendUint32(b, uint32(36+n))
	b = append(b, "WAVEfmt "...)
	for _, v := range []any{uint32(16), uint16(1), uint16(1), uint32(24000), uint32(48000), uint16(2), uint16(16)} {
		b, _ = binary.Append(b, le, v)
	}
	b = append(b, "data"...)
	b = le.AppendUint32(b, uint32(n))
	for i := range n / 2 {
		b = le.AppendUint16(b, uint16(int16(8000-16000*(i/50%2))))
	}
	return b
}
