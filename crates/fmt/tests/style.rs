// SPDX-License-Identifier: MIT OR Apache-2.0
//! The style, case by case.

use junctor_fmt::{Error, format};

fn check(text: &str, want: &str) {
    let got = format(text).unwrap_or_else(|why| panic!("{why:?}\n{text}"));
    assert_eq!(got, want, "{text}");
    assert_eq!(format(&got).expect("formatted before"), got, "formatted twice: {text}");
}

/// It is in the formatter's style.
fn stays(text: &str) {
    check(text, text);
}

#[test]
fn signs_have_their_spaces() {
    check("", "");
    check(" \n\n ", "");
    check("a::A", "a :: A\n");
    check("a  ::  A ( 1,2 ) ;", "a :: A(1, 2);\n");
    check("a[0]->[1]b", "a[0] -> [1]b\n");
    check("a [0] -> [ 1 , 2-3,4- ] b;", "a[0] -> [1, 2-3, 4-]b;\n");
    check("a,b::A", "a, b :: A\n");
    check("a=>b,c", "a => b, c\n");
    check("require( library  x.click )", "require(library  x.click)\n");
    check("define ($A 1,$B 2);", "define($A 1, $B 2);\n");
    check("a::{->}(1)->b", "a :: { -> }(1) -> b\n");
    check("(a->b)->c", "( a -> b ) -> c\n");
    check(
        "elementclass X{$a,K $b|->Queue($a)->||...}",
        "elementclass X { $a, K $b | -> Queue($a) -> || ... }\n",
    );
    check("elementclass X Y", "elementclass X Y\n");
}

#[test]
fn statements_begin_lines() {
    check("a->b;c->d;", "a -> b;\nc -> d;\n");
    check("a::A b::B", "a :: A\nb :: B\n");
    check("a;;b", "a;;\nb\n");
    check("a\n\n\n\nb", "a\n\nb\n");
    check("x::{a->b;c->d}", "x :: { a -> b; c -> d }\n");
    check("x::{a->b;\nc->d}->y", "x :: {\n    a -> b;\n    c -> d\n} -> y\n");
    check("x::{\n\na;\n\n\nb\n\n}", "x :: {\n    a;\n\n    b\n}\n");
    check(
        "x::{\n$a|\nb||\n$c,\n$d|e||\n...}",
        "x :: { $a |\n    b\n|| $c,\n        $d |\n    e\n|| ...\n}\n",
    );
    check("a->\n{b->\nc}->d", "a\n    -> {\n        b\n            -> c\n    } -> d\n");
    check("x :: {}", "x :: { }\n");
    check("x :: {\n}", "x :: {\n}\n".replace("{\n}", "{ }").as_str());
}

#[test]
fn chains_break_before_arrows() {
    check("a\n->b->\nc", "a\n    -> b\n    -> c\n");
    check("a,\nb,c->d", "a,\n    b, c -> d\n");
    let long = "x".repeat(40);
    check(&format!("{long} -> {long} -> {long} -> y;"), &format!("{long} -> {long}\n    -> {long} -> y;\n"));
    let very = "x".repeat(130);
    stays(&format!("a -> B({very}) -> c;\n").replace(") -> c", ")\n    -> c"));
}

#[test]
fn comments_stay() {
    stays("// first\n\n// second\na -> b; // behind\n// below\nc;\n\n// last\n");
    check("a // x\n->b", "a // x\n    -> b\n");
    check("a /*x*/->/*y*/b", "a /*x*/ -> /*y*/ b\n");
    check("a;/* x\n  y */b;", "a; /* x\n  y */ b;\n");
    check("  // in\n  a;", "// in\na;\n");
    check("x::{// one\na;\n  // two\n}", "x :: { // one\n    a;\n    // two\n}\n");
    check("a;   // kept apart\nbc; // kept", "a;   // kept apart\nbc; // kept\n");
    check("a;//   \nb", "a; //\nb\n");
    stays("a\n    // between\n    -> b;\n");
    check("a /* open", "a /* open\n");
}

#[test]
fn arguments_stay_in_their_lines() {
    stays("define($A 1,\n       // Why.\n       $B 2);\n");
    check("define($A 1,\n$B 2);", "define($A 1,\n$B 2);\n");
    check("  rt::R(\n    a,\n    b\n  );", "rt :: R(\n  a,\n  b\n);\n");
    check("  f :: F(a,\n         b);", "f :: F(a,\n       b);\n");
    check("f::F(a,\n     b);", "f :: F(a,\n       b);\n");
    stays("s :: Script(\"a,\n   b\", 'c,\nd', x\n y);\n");
}

#[test]
fn directives_stay_at_the_beginning_of_lines() {
    stays("# 3 \"f\"\na -> b;\n#line 7 \"g\"\n\nc(1,\n# 9\n2);\n");
    check("x::{\n# 4 \"f\"\n a }", "x :: {\n# 4 \"f\"\n    a\n}\n");
    check("  a(\n# 4\n  b,\n# 5\n  c)", "a(\n# 4\nb,\n# 5\nc)\n");
    check("a\n# 4\n -> b", "a\n# 4\n    -> b\n");
}

#[test]
fn line_ends_and_marks_stay() {
    check("a;\r\nb(1,\r\n  2);\r\n\r\n// c\r\n", "a;\r\nb(1,\r\n  2);\r\n\r\n// c\r\n");
    check("a;\rb;", "a;\nb;\n");
    check("a;\r\n/* x\n y */\r\nb;", "a;\n/* x\n y */\nb;\n");
    check("\u{feff}a;  b;", "\u{feff}a;\nb;\n");
}

#[test]
fn what_cannot_be_read_stays() {
    for text in ["a -> ;", "x :: {", "a(", "a -> -> b", "a\n#x\n", "$a", "]"] {
        let Err(Error::Syntax(found)) = format(text) else { panic!("{text}") };
        assert!(!found.diagnostics.is_empty());
    }
    // What the names mean is the compiler's concern.
    stays("nobody -> knows -> Them(what);\n");
}

#[test]
fn large_texts_take_time_in_proportion() {
    let check =
        |text: String| drop(format(&text).map(|formatted| assert!(formatted.len() < 3 * text.len() + 100)));
    check("//\n".repeat(100_000));
    check(format!("a {}", ", { }".repeat(60_000)));
    check(format!("a {}", "-> b ".repeat(60_000)));
    check(format!("{}{}", "{ -> ".repeat(60), "} ".repeat(60)) + &"x(".repeat(10));
    check(format!("a({})", "b, ".repeat(100_000)));
    check(format!("a({})", "b,\n".repeat(100_000)));
}
