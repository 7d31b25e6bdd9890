// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formatting keeps what a configuration means: for every configuration of this project, and for those that proptest makes.

use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;

mod meaning_check;

use meaning_check::check;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below a directory whose names end so.
fn files(directory: &Path, ending: &str, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, ending, into);
        } else if path.to_string_lossy().ends_with(ending) {
            into.push(path);
        }
    }
}

fn texts(directory: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root().join(directory), ending, &mut found);
    found.sort();
    let read = |path: PathBuf| {
        let text = String::from_utf8_lossy(&std::fs::read(&path).expect("readable")).into_owned();
        (path, text)
    };
    found.into_iter().map(read).collect()
}

/// The blocks of a text between ```` ```click ```` and ```` ``` ````.
fn blocks(text: &str, margin: &str) -> Vec<String> {
    let (mut all, mut open) = (Vec::new(), None::<String>);
    for line in text.lines() {
        let line = line.strip_prefix(margin).unwrap_or(line);
        match (&mut open, line.trim()) {
            (None, "```click") => open = Some(String::new()),
            (Some(_), "```") => all.extend(open.take()),
            (Some(block), _) => {
                block.push_str(line.strip_prefix(' ').filter(|_| !margin.is_empty()).unwrap_or(line));
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    all
}

#[test]
fn shipped_configurations_are_formatted() {
    let all = texts("conf", ".click");
    assert!(all.len() > 5);
    for (path, text) in all {
        assert!(check(&text), "{}", path.display());
        let formatted = junctor_fmt::format(&text).expect("sound");
        let name = path.display().to_string();
        assert!(
            formatted == text,
            "run 'junctor fmt conf/*.click':\n{}",
            junctor_fmt::unified(&name, &text, &formatted)
        );
    }
}

#[test]
fn golden_tests_keep_their_meaning() {
    let mut sound = 0;
    for (_, text) in texts("tests/golden", ".test") {
        let sections = text.split("\n%file ").skip(1);
        for section in sections {
            let (_, rest) = section.split_once('\n').unwrap_or_default();
            let end =
                ["\n%expect", "\n%script", "\n%info", "\n%hex"].iter().filter_map(|s| rest.find(s)).min();
            sound += usize::from(check(&rest[..end.unwrap_or(rest.len())]));
        }
        // What stands between quotes in scripts.
        for quoted in text.split('\'').skip(1).step_by(2) {
            sound += usize::from(check(quoted));
        }
    }
    assert!(sound > 300, "{sound}");
}

#[test]
fn examples_of_manuals_and_the_book_keep_their_meaning() {
    let mut sound = 0;
    let manuals = texts("crates/elements/src", ".rs").into_iter().flat_map(|(_, text)| blocks(&text, "//!"));
    let book = texts("docs", ".md").into_iter().flat_map(|(_, text)| blocks(&text, ""));
    for block in manuals.chain(book) {
        sound += usize::from(check(&block));
    }
    assert!(sound > 100, "{sound}");
}

#[test]
fn the_fuzzers_corpora_pass() {
    let (mut count, mut sound) = (0, 0);
    for directory in ["fuzz/corpus/lang_parse", "fuzz/corpus/fmt_text", "crates/lang/tests/errors"] {
        for (_, text) in texts(directory, "") {
            count += 1;
            sound += usize::from(check(&text));
        }
    }
    assert!(count > 60 && sound > 20, "{sound} of {count}");
}

/// Words of the language, with what may stand between them.
fn written(words: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let between = prop::sample::select(vec![
        " ",
        " ",
        " ",
        "",
        "\n",
        "\n\n\n",
        "\t",
        " /* c */ ",
        " // d\n",
        "\n// e\n",
        "\r\n",
        "\n# 7 \"f\"\n",
        "/* g\n h */",
    ]);
    vec((prop::sample::select(words), between), 0..most)
        .prop_map(|all| all.into_iter().map(|(word, between)| format!("{word}{between}")).collect())
}

/// Statements that are right, in any order.
const STATEMENTS: &[&str] = &[
    "a::A;",
    "b :: B(1,2 ,3)",
    "c, d :: C",
    "Idle -> Discard;",
    "x -> [ 0 ] y [1,2-3] -> z",
    "A -> { input->B(x)->output } -> C;",
    "e :: {-> A ->}",
    "(-> A ->) -> B",
    "elementclass E { $a , K $b | input -> F($a,$b) -> output }",
    "elementclass G { -> A -> || $x | -> B -> || ... }",
    "f :: F(a,\n      b, // why\n      c)",
    "g :: G(\n  '(',\n\n  \")\\\"\", \\<29 29>\n);",
    "define($A 1,$B ${A-x,y});",
    "require(package p)",
    "s :: Script(set x $(add 1, 2), print \"a,  b\",end)",
    "h :: { a -> b; c :: { -> D -> } -> e\n }",
    "very_long_name_of_an_element_0000 -> very_long_name_of_an_element_1111 -> { -> very_long_name_of_an_element_2222(1) -> } -> x;",
    ";",
];

const TOKENS: &[&str] = &[
    "a",
    "B",
    "input",
    "output",
    "elementclass",
    "require",
    "define",
    "->",
    "=>",
    "::",
    "||",
    "...",
    "|",
    "[",
    "]",
    "[0]",
    "[1-]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ";",
    "$a",
    "(1,2)",
    "($a)",
    "'",
    "\"",
    "\\<",
    "/*",
    "//",
    "\u{e9}",
    "0",
    "#",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn statements_keep_their_meaning(text in written(STATEMENTS, 12)) {
        check(&text);
    }

    #[test]
    fn chains_keep_their_meaning(text in written(&["a", "-> b", "->", "(", "-> )", "{ ->", "-> }", "[1] -> [2] c", ", d", "X(1,\n 2)", ";"], 16)) {
        check(&text);
    }

    #[test]
    fn tokens_are_survived(text in written(TOKENS, 40)) {
        check(&text);
    }

    #[test]
    fn any_text_is_survived(text in "(\\PC|[\\n\\r(){}\\[\\]\"'$/\\\\<>,;:=|.#-]){0,80}") {
        check(&text);
    }
}
