package speech

import "testing"

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		Read("On Jan. 3rd, 1889, at 5 p.m., Dr. Lee paid $5.50 for 3 books, and please hold while I transfer your call.", "en-us", nil)
	}
}
