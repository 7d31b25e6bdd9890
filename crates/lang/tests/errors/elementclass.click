elementclass { input -> output }
elementclass X 7up
elementclass Y -> Z
a :: ;
