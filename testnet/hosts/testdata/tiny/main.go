// Tiny is a program that links fast.
package main

func main() {}
