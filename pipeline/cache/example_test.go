package cache_test

import (
	"fmt"
	"log"
	"os"

	"github.com/rs/zerolog"

	"parsimon/pipeline/cache"
	"parsimon/stages"
)

// What a run has stored, later runs find, until it is pruned.
func Example() {
	dir, err := os.MkdirTemp("", "cache")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	key := stages.CaseKey{1}

	first, err := cache.Open(dir, zerolog.Nop())
	check(err)
	first.Store(key, []byte("delays"))
	first.Close()

	second, err := cache.Open(dir, zerolog.Nop())
	check(err)
	result, ok := second.Lookup(key, nil)
	fmt.Println(string(result), ok)
	_, ok = second.Lookup(stages.CaseKey{2}, nil)
	fmt.Println(ok)
	second.Close()

	_, err = cache.Prune(dir, 0)
	check(err)
	third, err := cache.Open(dir, zerolog.Nop())
	check(err)
	defer third.Close()
	_, ok = third.Lookup(key, nil)
	fmt.Println(ok)
	// Output:
	// delays true
	// false
	// false
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
