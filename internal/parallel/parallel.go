// Package parallel plays the parts of long arithmetic, such as simulations, on all processors. What is played is left to its callers.
//
//	parallel.Each(n, func(i int) { results[i] = simulate(i) })
package parallel

import (
	"runtime"
	"sync"
)

// Each calls f(0) to f(n−1), as many at once as there are processors, and returns when all have ended.
func Each(n int, f func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
