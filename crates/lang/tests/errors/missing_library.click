require(library no-such-library.click);
FromThere -> there;
