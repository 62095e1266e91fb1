package wire

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
)

// A message of the event stream is
//
//	total length, length of the headers, checksum of these two   4 bytes each, big endian
//	headers: length of the name, name, 7 (a string), length of the value (2 bytes), value
//	payload
//	checksum of all before                                        4 bytes

const preludeLen = 12

// eventHeaders encodes name, value pairs.
func eventHeaders(pairs ...string) []byte {
	var b []byte
	for i := 0; i < len(pairs); i += 2 {
		b = append(b, byte(len(pairs[i])))
		b = append(b, pairs[i]...)
		b = append(b, 7)
		b = binary.BigEndian.AppendUint16(b, uint16(len(pairs[i+1])))
		b = append(b, pairs[i+1]...)
	}
	return b
}

var partHeaders = eventHeaders(":message-type", "event", ":event-type", "PayloadPart", ":content-type", "application/octet-stream")

// PartBuffer is where payload parts are read and framed in place, so that no byte of them is copied here.
type PartBuffer []byte

// PartPayload is the most bytes of one part.
const PartPayload = 32 << 10

// NewPartBuffer is a buffer for one stream at a time.
func NewPartBuffer() PartBuffer {
	b := make(PartBuffer, preludeLen+len(partHeaders)+PartPayload+4)
	copy(b[preludeLen:], partHeaders)
	return b
}

// Read reads once from r and frames what came as one PayloadPart, which is good until the next Read; it is empty when
// nothing came.
func (b PartBuffer) Read(r io.Reader) (message []byte, err error) {
	head := preludeLen + len(partHeaders)
	n, err := r.Read(b[head : len(b)-4])
	if n == 0 {
		return nil, err
	}
	return frame(b, len(partHeaders), n), err
}

// frame fills in lengths and checksums of a message whose headers and payload are in place.
func frame(b []byte, headers, payload int) []byte {
	total := preludeLen + headers + payload + 4
	binary.BigEndian.PutUint32(b, uint32(total))
	binary.BigEndian.PutUint32(b[4:], uint32(headers))
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
	binary.BigEndian.PutUint32(b[total-4:], crc32.ChecksumIEEE(b[:total-4]))
	return b[:total]
}

// Exception is the message that ends a stream with an error of that kind; code is the ErrorCode in its payload.
func Exception(kind, message, code string) []byte {
	payload, _ := json.Marshal(map[string]string{"Message": message, "ErrorCode": code}) // strings always encode
	headers := eventHeaders(":message-type", "exception", ":exception-type", kind, ":content-type", "application/json")
	b := make([]byte, preludeLen, preludeLen+len(headers)+len(payload)+4)
	b = append(append(b, headers...), payload...)
	return frame(b[:cap(b)], len(headers), len(payload))
}
