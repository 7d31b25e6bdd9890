// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints a configuration's flat graph: `cargo run -p junctor-lang --example flat FILE [NAME=VALUE...]`.

use junctor_lang::{Options, load_file, render};

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: flat FILE [NAME=VALUE...]");
        std::process::exit(2);
    };
    let defines =
        args.filter_map(|a| a.split_once('=').map(|(n, v)| (n.to_string(), v.to_string()))).collect();
    let parsed = load_file(&path, &Options { defines, ..Options::default() });
    eprint!("{}", render(&parsed.diagnostics, &parsed.sources, false));
    match parsed.graph {
        Some(graph) => print!("{}", graph.to_click()),
        None => std::process::exit(2),
    }
}
