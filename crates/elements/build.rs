// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects the manuals: the `//!` header of every element's file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=src");
    let mut table = String::from("&[\n");
    let kinds = std::fs::read_dir("src").expect("src").flatten().map(|e| e.path()).filter(|p| p.is_dir());
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort();
    for kind in kinds {
        let mut files = entries(&kind);
        let below = files.iter().filter(|f| f.is_dir()).flat_map(|dir| entries(dir));
        let below: Vec<_> = below.filter(|f| f.extension().is_some_and(|x| x == "rs")).collect();
        files.extend(below);
        files.sort();
        for file in files.iter().filter(|f| f.extension().is_some_and(|x| x == "rs")) {
            let text = std::fs::read_to_string(file).expect("element file");
            let manual: Vec<&str> = text
                .lines()
                .skip_while(|l| !l.starts_with("//!"))
                .take_while(|l| l.starts_with("//!"))
                .map(|l| l.strip_prefix("//! ").or(l.strip_prefix("//!")).unwrap_or(l))
                .collect();
            let name = Path::new(file).strip_prefix("src").expect("under src").display().to_string();
            writeln!(table, "({name:?}, {:?}),", manual.join("\n")).expect("string");
        }
    }
    table.push(']');
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("manuals.rs"), table).expect("manuals.rs");
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).expect("a directory").flatten().map(|e| e.path()).collect()
}
