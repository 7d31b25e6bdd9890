// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long configurations of several shapes take to read: `cargo run --release -p junctor-lang --example speed`.

use std::fmt::Write as _;
use std::time::Instant;

use junctor_lang::{Options, load_str};

fn main() {
    let mut lines = String::from(
        "elementclass Path { $n | -> Counter -> Queue($n) -> u :: Unqueue -> }\ndefine($size 1000);\n",
    );
    for i in 0..2500 {
        let _ = writeln!(lines, "// path {i}\nsrc{i} :: InfiniteSource(DATA \\<00 01 02 03>, LIMIT {i});");
        let _ = writeln!(lines, "src{i} -> Path($size) -> c{i} :: Classifier(12/0800, 12/0806, -);");
        let _ = writeln!(lines, "c{i} => Print(ip), Print(arp), Print(other) -> d{i} :: Discard;");
    }
    let chain = "s :: S".to_string() + &" -> N".repeat(200_000) + ";";
    let table = format!("r :: RadixIPLookup({});", "10.1.2.0/24 10.0.0.1 3,\n".repeat(300_000));
    let tunnels = "elementclass P { -> } s :: S".to_string() + &" -> P".repeat(100_000) + " -> d :: D;";
    let errors: String = (0..100_000).fold(String::new(), |mut s, i| {
        let _ = writeln!(s, "nowhere{i} -> ; }} a{i} :: ;");
        s
    });
    let declarations = (0..100_000).fold(String::new(), |mut s, i| {
        let _ = writeln!(s, "a{i} :: A; ");
        s
    });
    let fan = declarations.clone()
        + &(0..100_000).map(|i| format!("a{i}")).collect::<Vec<_>>().join(", ")
        + " => D;";
    let dollars = format!("X({})", "$($(${".repeat(300_000));
    let nested = format!("X({})", "$a(".repeat(300_000));
    let cases = [
        ("10,000 lines", &lines),
        ("chain of 200,000", &chain),
        ("table of 300,000", &table),
        ("100,000 pass-through compounds", &tunnels),
        ("100,000 lines of errors", &errors),
        ("100,000 declarations", &declarations),
        ("fan of 100,000", &fan),
        ("unclosed variables", &dollars),
        ("unclosed configuration", &nested),
    ];
    for (name, text) in cases {
        let start = Instant::now();
        let parsed = load_str("speed", text, &Options::default());
        let took = start.elapsed();
        let elements = parsed.graph.as_ref().map_or(0, |g| g.elements.len());
        let start = Instant::now();
        let printed = parsed.graph.as_ref().map_or(0, |g| g.to_click().len());
        println!(
            "{name:32} {:8} bytes {elements:7} elements {:5} messages: read {:7.1} ms, print {:5.1} ms ({printed} bytes)",
            text.len(),
            parsed.diagnostics.len(),
            took.as_secs_f64() * 1e3,
            start.elapsed().as_secs_f64() * 1e3,
        );
    }
}
