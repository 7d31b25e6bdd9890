require(package a b);
require(library);
require("");
elementclass X { require(library foo.click) }
