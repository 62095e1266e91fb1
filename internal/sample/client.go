package sample

// Client is what the load generator can say of itself over one rung. Times are seconds. A rung whose client was the
// limit says nothing of the server.
type Client struct {
	LatenessP99 float64        `json:"lateness_p99_s"` // dispatch: started after intended
	CanaryP99   float64        `json:"canary_p99_s"`   // round trip of the in-process echo
	CanaryN     int            `json:"canary_n"`       // echoes behind CanaryP99; 0 means it did not run
	SchedP99    float64        `json:"sched_p99_s"`    // Go scheduler latency
	GCPauses    int            `json:"gc_pauses"`      // stop-the-world pauses within the rung
	GCPauseMax  float64        `json:"gc_pause_max_s"`
	GC          float64        `json:"gc_cpu"`           // processor time that the garbage collector took from the program, over GOMAXPROCS (0..1)
	CPU         float64        `json:"cpu"`              // process CPU seconds per second, over GOMAXPROCS (0..1)
	Throttled   int64          `json:"throttled"`        // cgroup throttling events
	PSI         float64        `json:"psi_some"`         // share of time some task waited for CPU (0..1), -1 unknown
	ConnWaitP99 float64        `json:"conn_wait_p99_s"`  // started to connection in hand, on reused connections
	Reused      float64        `json:"reused"`           // share of requests on a reused connection
	Conns       int            `json:"conns"`            // connections dialled within the rung
	Streams     int            `json:"streams"`          // HTTP/2: most streams the peer allows a connection, 0 unknown
	Descriptors float64        `json:"descriptors"`      // open files over the soft limit (0..1)
	InFlight    float64        `json:"in_flight_mean"`   // mean requests that held a connection (or stream)
	BackingOff  float64        `json:"backing_off_mean"` // mean workers pausing after a refusal: not in flight, and not this client's fault
	Faults      map[string]int `json:"faults,omitempty"` // client_fault causes and their counts
}
