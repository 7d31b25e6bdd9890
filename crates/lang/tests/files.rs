// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configurations that come from several files: libraries and archives.

use std::path::Path;

use junctor_lang::{Options, Parsed, load_file, render};
use tempfile::TempDir;

/// A directory of its own for each test, removed when dropped.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let root = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("can make directories");
            std::fs::write(path, text).expect("can write");
        }
        Files(root)
    }

    fn load(&self, name: &str, search_path: &[&str]) -> Parsed {
        let search_path = search_path.iter().map(|p| self.0.path().join(p)).collect();
        load_file(self.0.path().join(name), &Options { search_path, ..Options::default() })
    }

    /// The flat graph, or the messages with the directory's name taken out.
    fn check(&self, name: &str, search_path: &[&str], want: &str) {
        let parsed = self.load(name, search_path);
        let got = match &parsed.graph {
            Some(graph) => graph.to_click(),
            None => render(&parsed.diagnostics, &parsed.sources, false),
        };
        let got = got.replace(&format!("{}/", self.0.path().display()), "");
        let plain = |s: &str| s.trim().replace("\n    ->", " ->").replace("\n\n", "\n");
        assert_eq!(plain(&got), plain(want));
    }
}

#[test]
fn a_library_lies_beside_the_file_or_in_the_search_path() {
    let files = Files::new(&[
        ("main.click", "require(library lib.click) Idle -> L -> Discard"),
        ("lib.click", "elementclass L { -> Here -> }"),
        ("far/main.click", "require(library \"lib.click\") Idle -> L -> Discard"),
        ("path/conf/lib.click", "elementclass L { -> InConf -> }"),
        ("path/lib.click", "elementclass L { -> Direct -> }"),
        ("other/lib.click", "elementclass L { -> Other -> }"),
    ]);
    let flat = |class: &str| {
        format!(
            "Idle@1 :: Idle;\nDiscard@3 :: Discard;\nL@2/{class}@1 :: {class};\nIdle@1 -> L@2/{class}@1 -> Discard@3;"
        )
    };
    files.check("main.click", &["path"], &flat("Here"));
    files.check("far/main.click", &["path", "other"], &flat("InConf"));
    files.check("far/main.click", &["other", "path"], &flat("Other"));
}

#[test]
fn a_library_is_read_once_and_loops_end() {
    let files = Files::new(&[
        ("main.click", "require(library a.click) require(library a.click, library ./b.click) m :: M"),
        ("a.click", "a :: A; require(library b.click)"),
        ("b.click", "b :: B; require(library a.click); require(library main.click)"),
    ]);
    files.check("main.click", &[], "a :: A;\nb :: B;\nm :: M;");
}

#[test]
fn libraries_share_the_files_scope() {
    let files = Files::new(&[
        ("main.click", "define($n 5) x :: X require(library lib/deep.click) X($m) y -> x"),
        ("lib/deep.click", "y :: Y($n) define($m 6) require(library next.click)"),
        ("lib/next.click", "require(package p) z :: Z"),
    ]);
    files.check(
        "main.click",
        &[],
        "require(package p);\nx :: X;\ny :: Y(5);\nz :: Z;\nX@4 :: X(6);\ny -> x;",
    );
}

#[test]
fn errors_in_a_library_are_shown_there() {
    let files = Files::new(&[
        ("main.click", "x :: X;\nrequire(library lib.click)"),
        ("lib.click", "\n# 40 \"made.click\"\nx :: Y;"),
    ]);
    files.check(
        "main.click",
        &[],
        "error[E0202]: redeclaration of element 'x'
  --> made.click:40:1
   |
40 | x :: Y;
   | ^
   |
note: element 'x' previously declared here
  --> main.click:1:1
   |
 1 | x :: X;
   | ^",
    );
}

#[test]
fn chains_of_libraries_are_bounded() {
    let names: Vec<(String, String)> = (0..40)
        .map(|i| (format!("l{i}.click"), format!("require(library l{}.click); e{i} :: E", i + 1)))
        .chain([("l40.click".to_string(), String::new())])
        .collect();
    let list: Vec<(&str, &str)> = names.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let parsed = Files::new(&list).load("l0.click", &[]);
    assert!(parsed.graph.is_none());
    assert_eq!(parsed.diagnostics.len(), 1);
    assert_eq!(parsed.diagnostics[0].message, "libraries require each other more than 32 levels deep");
}

#[test]
fn archives_bring_files_along() {
    let member = |name: &str, body: &str| {
        let padding = if body.len() % 2 == 1 { "\n" } else { "" };
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n{body}{padding}", 0, 0, 0, 100_644, body.len())
    };
    let archive = format!(
        "!<arch>\n{}{}{}",
        member("table.txt/", "10.0.0.0/8 1"),
        member("config/", "a :: A(table.txt)"),
        member("code.so/", "xyz")
    );
    let files = Files::new(&[("router", &archive)]);
    let graph = files.load("router", &[]).graph.expect("no errors");
    assert_eq!(graph.to_click(), "a :: A(table.txt);\n\n");
    assert_eq!(
        graph.archive,
        [("table.txt".to_string(), b"10.0.0.0/8 1".to_vec()), ("code.so".to_string(), b"xyz".to_vec())]
    );
}

#[test]
fn a_directory_is_no_configuration() {
    let parsed = load_file(Path::new("/"), &Options::default());
    assert_eq!(parsed.diagnostics[0].code, "E0601");
}
