// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and pieces of texts as they were written.

use junctor_lang::syntax::{NameKind, PieceKind, Role, Syntax};
use junctor_lang::{Options, load_str};
use proptest::prelude::*;

/// Each name of a text with where it is declared: `q@5 element 0`. A declaration stands for itself; a mention has a `?`.
fn check(text: &str, want: &[&str]) {
    let syntax = Syntax::of(text);
    let shown: Vec<String> = syntax
        .names()
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let kind = match name.kind {
                NameKind::Element => "element",
                NameKind::Class => "class",
                NameKind::Variable => "variable",
            };
            let declared = syntax.declaration(n).map(|d| syntax.names()[d].span.start.to_string());
            let mark = if name.role == Role::Mentions { "?" } else { "" };
            format!("{}@{} {kind}{mark} {}", syntax.text(n), name.span.start, declared.unwrap_or("-".into()))
        })
        .collect();
    assert_eq!(shown, want, "{text}");
}

#[test]
fn elements_are_known_in_their_body() {
    check(
        "q :: Q; q -> x :: { q :: R; q -> output }",
        &[
            "q@0 element 0",
            "Q@5 class -",
            "q@8 element 0",
            "x@13 element 13",
            "q@20 element 20",
            "R@25 class -",
            "q@28 element 20",
        ],
    );
    check(
        "(a :: A -> b); b -> a",
        &["a@1 element 1", "A@6 class -", "b@11 element -", "b@15 element -", "a@20 element 1"],
    );
    check(
        "a, b :: A; A -> Q(1)",
        &["a@0 element 0", "b@3 element 3", "A@8 class -", "A@11 class -", "Q@16 class -"],
    );
    // A capital letter makes no class of a name that is declared.
    check("A :: B; A -> A", &["A@0 element 0", "B@5 class -", "A@8 element 0", "A@13 element 0"]);
}

#[test]
fn classes_count_from_their_end_to_the_end_of_the_body_around_them() {
    check(
        "elementclass A { elementclass B C; x :: B } x :: A; y :: B",
        &[
            "A@13 class 13",
            "B@30 class 30",
            "C@32 class -",
            "x@35 element 35",
            "B@40 class 30",
            "x@44 element 44",
            "A@49 class 13",
            "y@52 element 52",
            "B@57 class -",
        ],
    );
    check(
        "elementclass A { -> A -> } elementclass A { -> A -> }",
        &["A@13 class 13", "A@20 class -", "A@40 class 40", "A@47 class 13"],
    );
}

#[test]
fn variables_are_known_inside() {
    check(
        "define($a 1, $b ${a-$c}); X { }",
        &["a@8 variable 8", "b@14 variable 14", "a@18 variable 8", "c@21 variable -", "X@26 class -"],
    );
    check(
        "elementclass E { $a, K $b | x :: F($a, \"$b\", '$c', ${d-1}) || $a | F($a) } define($d 2)",
        &[
            "E@13 class 13",
            "a@18 variable 18",
            "b@24 variable 24",
            "x@28 element 28",
            "F@33 class -",
            "a@36 variable 18",
            "b@41 variable 24",
            "d@53 variable 83",
            "a@63 variable 63",
            "F@67 class -",
            "a@70 variable 63",
            "d@83 variable 83",
        ],
    );
}

#[test]
fn words_of_arguments_may_be_names() {
    check(
        "q :: Q; R(q, x q, a.q, q/b.c, \"q q.d\", q.e) // q",
        &[
            "q@0 element 0",
            "Q@5 class -",
            "R@8 class -",
            "q@10 element? 0",
            "q@15 element? 0",
            "q@23 element? 0",
            "q@33 element? 0",
            "q@39 element? 0",
        ],
    );
    check("tcp :: Q; IPClassifier(tcp)", &["tcp@0 element 0", "Q@7 class -", "IPClassifier@10 class -"]);
}

#[test]
fn pieces_are_all_but_white_space() {
    let check = |text: &str, want: &[(&str, PieceKind, bool)]| {
        let syntax = Syntax::of(text);
        let got: Vec<_> = syntax
            .pieces()
            .iter()
            .map(|p| (syntax.sources().snippet(p.span), p.kind, p.starts_statement))
            .collect();
        assert_eq!(got, want, "{text}");
    };
    use PieceKind::{BlockComment, Config, Directive, Ident, Keyword, LineComment, Symbol, Variable};
    check(
        "a /*b*/ -> c; // d\r\n# 3 \"f\"\n(e)f()",
        &[
            ("a", Ident, true),
            ("/*b*/", BlockComment, false),
            ("->", Symbol, false),
            ("c", Ident, false),
            (";", Symbol, false),
            ("// d", LineComment, false),
            ("# 3 \"f\"", Directive, false),
            ("(", Symbol, true),
            ("e", Ident, true),
            (")", Symbol, false),
            ("f", Ident, true),
            ("(", Symbol, false),
            ("", Config, false),
            (")", Symbol, false),
        ],
    );
    check(
        "define($a 1)elementclass B{$c|a/*1*//*2*//*3*//*4*//*5*/}",
        &[
            ("define", Keyword, true),
            ("(", Symbol, false),
            ("$a 1", Config, false),
            (")", Symbol, false),
            ("elementclass", Keyword, true),
            ("B", Ident, false),
            ("{", Symbol, false),
            ("$c", Variable, false),
            ("|", Symbol, false),
            ("a", Ident, true),
            ("/*1*/", BlockComment, false),
            ("/*2*/", BlockComment, false),
            ("/*3*/", BlockComment, false),
            ("/*4*/", BlockComment, false),
            ("/*5*/", BlockComment, false),
            ("}", Symbol, false),
        ],
    );
}

#[test]
fn libraries_elsewhere_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("lib.click");
    std::fs::write(&library, "elementclass L { -> A -> }").unwrap();
    let text = format!("require(library {}); L -> L", library.display());
    let codes = |roots: Option<Vec<std::path::PathBuf>>| -> Vec<&str> {
        let parsed = load_str("t", &text, &Options { library_roots: roots, ..Options::default() });
        parsed.diagnostics.iter().filter(|d| d.code.starts_with("E05")).map(|d| d.code).collect()
    };
    assert_eq!(codes(None), [""; 0]);
    assert_eq!(codes(Some(vec!["/dev/null".into(), folder.path().to_path_buf()])), [""; 0]);
    assert_eq!(codes(Some(vec!["/dev/null".into()])), ["E0505"]);
    assert_eq!(codes(Some(vec![])), ["E0505"]);
}

#[test]
fn large_texts_take_time_in_proportion() {
    let check = |text: String, count: usize| {
        let syntax = Syntax::of(&text);
        let declared = (0..syntax.names().len()).rev().find_map(|n| syntax.declaration(n)).expect("declared");
        assert_eq!(syntax.uses(declared).count(), count, "{}", &text[..40]);
    };
    check(format!("define($a 1); X({})", "$a ".repeat(100_000)), 100_001);
    check(format!("define({})", "$a $a, ".repeat(50_000)), 100_000);
    check("a :: A; ".repeat(50_000), 1);
    check("a -> ".repeat(100_000) + "a :: A", 100_001);
    check("elementclass A B; ".repeat(50_000), 1);
    check("x :: { a :: A; a -> a }; ".repeat(10_000) + "b :: A; b -> b", 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_has_pieces_and_names(text in "(a|b|A|::|->|\\{|\\}|\\(|\\)|\\[|\\||,|;|\\$a|\"|'|//|/\\*|\\*/|elementclass |define|\n|#| |\u{e9}){0,40}") {
        let syntax = Syntax::of(&text);
        let mut at = 0;
        for piece in syntax.pieces() {
            let (start, end) = (piece.span.start as usize, piece.span.end as usize);
            prop_assert!(at <= start && start <= end);
            prop_assert!(text[at..start].trim().is_empty(), "{:?} is in no piece of {:?}", &text[at..start], text);
            at = end;
        }
        prop_assert!(text[at..].trim().is_empty(), "{:?}", text);
        for name in 0..syntax.names().len() {
            prop_assert!(!syntax.text(name).is_empty());
            prop_assert!(syntax.scopes()[syntax.names()[name].scope].whole.start <= syntax.names()[name].span.start);
            if let Some(declared) = syntax.declaration(name) {
                prop_assert_eq!(syntax.text(declared), syntax.text(name));
                prop_assert!(syntax.uses(declared).any(|n| n == declared));
            }
        }
        for byte in 0..=text.len() as u32 {
            prop_assert!(syntax.scope_at(byte) < syntax.scopes().len());
            let _ = syntax.at(byte);
        }
    }
}
