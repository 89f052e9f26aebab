package ns3_test

import (
	"fmt"

	"parsimon/stages/ns3"
)

func ExampleSimulator_Identity() {
	s := ns3.Simulator{} // no program
	_, err := s.Identity()
	fmt.Println(err)
	// Output: ns-3: no program is given (--ns3)
}
