elementclass A { $a, $a | X($a) }
elementclass B { K $a, K $b | X($a $b) }
elementclass C { K $a, $b | X($a $b) }
elementclass D { $a $b | X }
elementclass E { $a, | X }
elementclass F { $a | define($a 1) X }
