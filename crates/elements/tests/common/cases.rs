// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extreme and random arguments for an element class, put into its manual's example.

use element::Registry;
use element::args::{Args, Names};
use lang::Graph;
use lang::config::{join_args, split_args, split_words};

/// Values that some argument or other cannot be.
pub const EXTREMES: &[&str] = &[
    "",
    "0",
    "-1",
    "256",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "1e308",
    "0.0000000001",
    "nan",
    "1ns",
    "18446744073s",
    "999999999999GBps",
    "0.0.0.0/0",
    "255.255.255.255/32",
    "::/0",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
    "1-18446744073709551615",
    "\\<00ff00ff>",
    "'((((((('",
    "é",
];

/// The graph of one of these examples, and the place of the first element of the class in it.
pub fn example(
    registry: &Registry,
    options: &lang::Options,
    class: &str,
    texts: &[String],
) -> Option<(Graph, usize)> {
    let file = registry.get(class)?.file;
    let graphs: Vec<Graph> =
        texts.iter().filter_map(|text| lang::load_str("example", text, options).graph).collect();
    let find = |is_it: &dyn Fn(&str) -> bool| {
        let found = graphs.iter().filter_map(|g| Some((g, g.elements.iter().position(|e| is_it(&e.class))?)));
        found.max_by_key(|(graph, at)| graph.elements[*at].config.len())
    };
    // A class may share its manual with another whose example it fits into.
    let relative = |name: &str| registry.get(name).is_some_and(|c| c.file == file);
    let (graph, at) = find(&|name| name == class).or_else(|| find(&relative))?;
    let mut graph = graph.clone();
    graph.elements[at].class = class.into();
    Some((graph, at))
}

/// The names of the arguments that the class asks for when it is given these.
pub fn asked(registry: &Registry, graph: &Graph, at: usize) -> Vec<&'static str> {
    let element = &graph.elements[at];
    let Some(class) = registry.get(&element.class) else { return Vec::new() };
    let names = Names::gather(graph);
    let ask = |config: &str| {
        let mut args = Args::new(config, &element.name, (1, 1), &names);
        (class.make)().configure(&mut args);
        args.asked().to_vec()
    };
    let mut asked = [ask(""), ask(&element.config)].concat();
    asked.sort_unstable();
    asked.dedup();
    asked
}

/// Configuration strings that differ from this one in one argument or one word, in random order.
pub fn variants(config: &str, asked: &[&str], random: &mut fastrand::Rng) -> Vec<String> {
    let args: Vec<String> = split_args(config).into_iter().map(|a| a.text).collect();
    let mut found = Vec::new();
    let digits = |random: &mut fastrand::Rng| {
        let n = random.u64(..) >> random.u32(0..64);
        if random.bool() { n.to_string() } else { format!("-{n}") }
    };
    let values: Vec<String> =
        EXTREMES.iter().map(|v| (*v).to_owned()).chain((0..3).map(|_| digits(random))).collect();
    for value in &values {
        for name in asked {
            let others = args.iter().filter(|a| split_words(a).first() != Some(name));
            let mut all: Vec<&str> = others.map(String::as_str).collect();
            let given = format!("{name} {value}");
            all.push(&given);
            found.push(join_args(&all));
        }
        for (i, arg) in args.iter().enumerate() {
            let words = split_words(arg);
            let replaced = |new: String| {
                let mut all = args.clone();
                all[i] = new;
                join_args(&all)
            };
            found.push(replaced(value.clone()));
            for at in 0..words.len().min(6) {
                let mut words = words.clone();
                words[at] = value;
                found.push(replaced(words.join(" ")));
            }
        }
        found.push(value.clone());
    }
    found.push(String::new());
    found.sort();
    found.dedup();
    random.shuffle(&mut found);
    found
}
