define($unused 1, $used 2);
elementclass Never { Null }
elementclass X { $a, $b | Print($a $used) }
X(1, 2);
