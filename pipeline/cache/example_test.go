package cache_test

import (
	"fmt"
	"log"
	"os"

	"github.com/rs/zerolog"

	"parsimon/pipeline/cache"
	"parsimon/stages/linksim"
)

// Later runs find the results that a run has stored.
func Example() {
	dir, err := os.MkdirTemp("", "cache")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	key := linksim.CaseKey{1}

	first, err := cache.Open(dir, zerolog.Nop())
	check(err)
	first.Store(key, []byte("delays"))
	first.Close()

	second, err := cache.Open(dir, zerolog.Nop())
	check(err)
	result, ok := second.Lookup(key, nil)
	fmt.Println(string(result), ok)
	_, ok = second.Lookup(linksim.CaseKey{2}, nil)
	fmt.Println(ok)
	second.Close()
	// Output:
	// delays true
	// false
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
