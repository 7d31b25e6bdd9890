a :: A;
#include "x"
# 20 "generated.click"
b -> a;
#line 7
c -> a;
