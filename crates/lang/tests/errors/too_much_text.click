define($v0 $v1 $v1 $v1 $v1 $v1 $v1 $v1 $v1 $v1 $v1 $v1 $v1 $v1 $v1 $v1 $v1);
define($v1 $v2 $v2 $v2 $v2 $v2 $v2 $v2 $v2 $v2 $v2 $v2 $v2 $v2 $v2 $v2 $v2);
define($v2 $v3 $v3 $v3 $v3 $v3 $v3 $v3 $v3 $v3 $v3 $v3 $v3 $v3 $v3 $v3 $v3);
define($v3 $v4 $v4 $v4 $v4 $v4 $v4 $v4 $v4 $v4 $v4 $v4 $v4 $v4 $v4 $v4 $v4);
define($v4 $v5 $v5 $v5 $v5 $v5 $v5 $v5 $v5 $v5 $v5 $v5 $v5 $v5 $v5 $v5 $v5);
define($v5 $v6 $v6 $v6 $v6 $v6 $v6 $v6 $v6 $v6 $v6 $v6 $v6 $v6 $v6 $v6 $v6);
define($v6 $v7 $v7 $v7 $v7 $v7 $v7 $v7 $v7 $v7 $v7 $v7 $v7 $v7 $v7 $v7 $v7);
define($v7 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long );
Print($v0);
