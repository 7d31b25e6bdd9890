define(a 1, $b-c 2, $ 3, $ok 4);
define($ok 5);
X($ok);
