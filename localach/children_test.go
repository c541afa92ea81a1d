package localach_test

func child(verb string, args []string) {}
