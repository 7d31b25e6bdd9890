// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden tests of diagnostics: each `tests/errors/NAME.click` against `NAME.txt`, which holds them as rendered for
//! people and as `click` prints them. `UPDATE_GOLDEN=1 cargo test -p junctor-lang --test errors` writes them anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use junctor_lang::{
    Diagnostic, Options, Severity, SourceMap, Span, load_bytes, load_file, load_str, render, render_click,
    to_json,
};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors")
}

fn cases() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = std::fs::read_dir(directory())
        .expect("tests/errors is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "click"))
        .collect();
    cases.sort();
    cases
}

#[test]
fn diagnostics_are_as_recorded() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for case in cases() {
        let name = case.file_name().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&case).expect("readable");
        let parsed = load_str(&name, &text, &Options::default());
        assert_eq!(parsed.graph.is_none(), parsed.has_errors(), "{name}");
        let got = format!(
            "{}---- click\n{}",
            render(&parsed.diagnostics, &parsed.sources, false),
            render_click(&parsed.diagnostics, &parsed.sources),
        );
        let golden = case.with_extension("txt");
        if update {
            std::fs::write(&golden, &got).expect("writable");
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != got {
            wrong.push(format!("{name} gives:\n{got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every code that the source mentions is shown by a golden test, or tested below.
#[test]
fn every_diagnostic_is_tested() {
    let elsewhere = ["E0203", "E0409", "E0410", "E0601", "E0602", "W0203", "N0001"];
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut codes = BTreeSet::new();
    let mut directories = vec![source];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("src is there") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).expect("readable");
            let is_code = |s: &&str| {
                s.len() == 5 && s.starts_with(['E', 'W', 'N']) && s[1..].bytes().all(|b| b.is_ascii_digit())
            };
            codes.extend(text.split('"').filter(is_code).map(str::to_string));
        }
    }
    assert!(codes.len() > 30);
    let golden: String = cases()
        .iter()
        .map(|case| std::fs::read_to_string(case.with_extension("txt")).unwrap_or_default())
        .collect();
    let untested: Vec<&String> = codes
        .iter()
        .filter(|c| !golden.contains(&format!("[{c}]")) && !elsewhere.contains(&c.as_str()))
        .collect();
    assert!(untested.is_empty(), "no test shows {untested:?}");
}

#[test]
fn files_that_cannot_be_read() {
    let parsed = load_file("/nowhere/at/all.click", &Options::default());
    assert_eq!(parsed.diagnostics[0].code, "E0601");
    assert!(parsed.graph.is_none());
    let parsed = load_bytes("x.a", b"!<arch>\nshort", &Options::default());
    assert_eq!(parsed.diagnostics[0].code, "E0602");
    let parsed = load_bytes("x.a", b"!<arch>\n", &Options::default());
    assert_eq!(parsed.diagnostics[0].message, "x.a: archive has no member 'config'");
    let parsed = load_bytes("x", b"a :: A(\xff)", &Options::default());
    assert_eq!((parsed.diagnostics[0].code, parsed.graph.is_some()), ("W0203", true));
}

#[test]
fn unknown_classes_are_found_when_classes_are_known() {
    let options = Options { classes: ["Queue", "Discard"].map(String::from).to_vec(), ..Options::default() };
    let parsed =
        load_str("t", "a :: Qeuue; b :: Qeuue; elementclass X Nothing; elementclass Y { y :: Y }", &options);
    let got: Vec<_> = parsed.diagnostics.iter().map(|d| (d.message.as_str(), d.help.as_deref())).collect();
    assert_eq!(
        got,
        [
            ("unknown element class 'Qeuue'", Some("did you mean `Queue`?")),
            ("unknown element class 'Nothing'", None),
            (
                "unknown element class 'Y'",
                Some("element classes are not recursive: inside, the name means what it meant before")
            ),
        ]
    );
}

#[test]
fn a_flood_of_messages_is_bounded() {
    let text: String = (0..5000).map(|i| format!("nowhere{i} -> Discard;\n")).collect();
    let parsed = load_str("t", &text, &Options::default());
    assert_eq!(parsed.diagnostics.len(), 1001);
    assert_eq!(parsed.diagnostics[1000].message, "4000 further messages are not shown");
}

#[test]
fn json_has_places() {
    let parsed = load_str("t", "a :: A;\na :: B;", &Options::default());
    let json = to_json(&parsed.diagnostics, &parsed.sources);
    assert_eq!(json[0]["severity"], "error");
    assert_eq!(json[0]["code"], "E0202");
    assert_eq!(json[0]["place"]["line"], 2);
    assert_eq!(json[0]["place"]["end_column"], 2);
    assert_eq!(json[0]["notes"][0]["place"]["line"], 1);
    assert_eq!(json[0]["help"], serde_json::Value::Null);
}

#[test]
fn rendering_takes_any_span() {
    let mut sources = SourceMap::new();
    let text = "a\u{1f600}\t\r\nb\rc \u{7f}\n\n".repeat(3) + &"long ".repeat(3000);
    let file = sources.add("t", &text);
    let ends: Vec<u32> = (0..=text.len()).filter(|&i| text.is_char_boundary(i)).map(|i| i as u32).collect();
    for (i, &start) in ends.iter().enumerate().filter(|(i, _)| *i < 60 || i % 997 == 0) {
        for &end in ends[i..].iter().filter(|&&e| e < start + 20 || e % 991 == 0) {
            let diagnostic = Diagnostic::error("E0000", "x").at(Span { file, start, end }).label("y");
            assert!(!render(&[diagnostic], &sources, true).is_empty());
        }
    }
    let outside = Diagnostic::new(Severity::Note, "N0000", "x").at(Span { file: 9, start: 5, end: 6 });
    assert!(render(&[outside], &sources, false).contains('x'));
}
