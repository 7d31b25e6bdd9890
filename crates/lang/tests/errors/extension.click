a :: { Null || ... };
elementclass X { ... }
elementclass Y { ... || Null }
