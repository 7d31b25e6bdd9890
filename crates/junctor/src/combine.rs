// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor combine`: several configurations become one, joined where one router's device meets another's; and back.

use std::collections::BTreeSet;

use lang::config::{split_args, split_words, unquote_string};
use lang::{Connection, Element, Graph, PortRef};

use crate::{exit, outcome};
use conf::Source;

/// The class of what stands for the cables between routers.
const LINK: &str = "RouterLink";

/// Combine configurations into one, to check or draw a network as a whole.
///
/// Each router's elements are named ROUTER/ELEMENT. A link A.eth0=B.eth1 puts a RouterLink in the place of router A's
/// ToDevice(eth0) and router B's FromDevice(eth1). --extract takes one router out again.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor combine a=a.click b=b.click a.eth0=b.eth0 b.eth0=a.eth0 -o both.click
  junctor combine --extract a both.click")]
pub(crate) struct Args {
    /// Configurations as NAME=FILE or FILE (named 1, 2 ... then), and links as NAME.DEVICE=NAME.DEVICE.
    #[arg(value_name = "NAME=FILE|LINK", required = true)]
    words: Vec<String>,
    /// A link, as among the words.
    #[arg(short, long, value_name = "LINK")]
    link: Vec<String>,
    /// Take this router out of a combined configuration, with its devices.
    #[arg(long, value_name = "NAME", conflicts_with = "link")]
    extract: Option<String>,
    /// Write to this file (`-`: standard output).
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: String,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let made = match &args.extract {
        Some(name) => match &args.words[..] {
            [file] => load(&Input::File(file.clone())).and_then(|graph| extract(&graph, name)),
            _ => Err("--extract expects one configuration".into()),
        },
        None => {
            let (mut routers, mut links) = (Vec::new(), args.link.clone());
            args.words.iter().for_each(|word| sort(word, &mut routers, &mut links));
            combine(&routers, &links)
        }
    };
    match made.and_then(|graph| write(&args.output, &graph.to_click())) {
        Ok(()) => exit::SUCCESS,
        Err(why) => outcome::usage(why),
    }
}

/// Where a router's configuration comes from.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    File(String),
    Text(String),
}

/// Tells a configuration from a link: `a=file`, `file`, `a.eth0=b.eth0`.
pub(crate) fn sort(word: &str, routers: &mut Vec<(String, Input)>, links: &mut Vec<String>) {
    let number = (routers.len() + 1).to_string();
    match word.split_once('=') {
        Some((name, _)) if name.contains('.') => links.push(word.to_owned()),
        Some((name, file)) => routers.push((name.to_owned(), Input::File(file.to_owned()))),
        None => routers.push((number, Input::File(word.to_owned()))),
    }
}

/// Writes text to a file, or to standard output.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(file: &str, text: &str) -> Result<(), String> {
    if file == "-" {
        out!("{text}");
        return Ok(());
    }
    std::fs::write(file, text).map_err(|e| format!("{file}: {e}"))
}

/// Reads a configuration.
///
/// # Errors
/// What is wrong with it, in Click's form.
pub(crate) fn load(input: &Input) -> Result<Graph, String> {
    let loaded = match input {
        Input::File(file) => Source::file(file).load(),
        Input::Text(text) => Source::text(text).load(),
    };
    let sources = loaded.sources;
    loaded.graph.ok_or_else(|| lang::render_click(&loaded.diagnostics, &sources).trim_end().to_owned())
}

/// One end of a link: a router, and its element.
type End = (usize, usize);

/// Combines routers.
///
/// # Errors
/// All that is wrong, a line each.
pub(crate) fn combine(routers: &[(String, Input)], links: &[String]) -> Result<Graph, String> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (name, _) in routers {
        let legal = name.split('/').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'@'))
        });
        if !legal {
            errors.push(format!("router name '{name}' is not a legal Click identifier"));
        }
        if !names.insert(name) {
            errors.push(format!("two routers named '{name}'"));
        }
    }
    if routers.is_empty() {
        errors.push("no routers specified".into());
    }
    let mut graphs = Vec::new();
    for (_, input) in routers {
        match load(input) {
            Ok(graph) => graphs.push(graph),
            Err(why) => errors.push(why),
        }
    }
    if !errors.is_empty() {
        return Err(errors.join("\n"));
    }
    let mut ends = Vec::new();
    for link in links {
        match parse_link(link, routers, &graphs) {
            Ok(found) => ends.push(found),
            Err(why) => errors.push(why),
        }
    }
    for (from, _) in &ends {
        if ends.iter().any(|(_, to)| to == from) {
            let (router, element) = (&routers[from.0].0, &graphs[from.0].elements[from.1].name);
            errors.push(format!("router '{router}' element '{element}' used as both source and destination"));
        }
    }
    if errors.is_empty() { Ok(join(routers, &graphs, &ends)) } else { Err(errors.join("\n")) }
}

/// Finds the ends of `a.eth0=b.eth1`.
fn parse_link(link: &str, routers: &[(String, Input)], graphs: &[Graph]) -> Result<(End, End), String> {
    let bad = || format!("bad link definition '{link}'");
    let (from, to) = link.split_once('=').ok_or_else(bad)?;
    let end = |text: &str, classes: &[&str]| {
        let (router, element) = text.trim().split_once('.').ok_or_else(bad)?;
        let number = routers.iter().position(|(name, _)| name == router);
        let number = number.ok_or_else(|| format!("no router named '{router}'"))?;
        let elements = &graphs[number].elements;
        let device = |e: &Element| {
            let first = split_args(&e.config).first().map(|arg| unquote_string(&arg.text));
            classes.contains(&e.class.as_str()) && first.as_deref() == Some(element)
        };
        let found = elements.iter().position(|e| e.name == element).or_else(|| {
            let mut devices = (0..elements.len()).filter(|e| device(&elements[*e]));
            devices.next().filter(|_| devices.next().is_none())
        });
        let missing = || format!("router '{router}' has no element or device named '{element}', or several");
        found.map(|e| (number, e)).ok_or_else(missing)
    };
    Ok((end(from, &["ToDevice"])?, end(to, &["FromDevice", "PollDevice"])?))
}

/// Puts the graphs side by side, and links in the place of the elements at their ends.
fn join(routers: &[(String, Input)], graphs: &[Graph], ends: &[(End, End)]) -> Graph {
    let mut joined = Graph::default();
    let mut base = Vec::new();
    for ((name, _), graph) in routers.iter().zip(graphs) {
        let first = joined.elements.len();
        base.push(first);
        for e in &graph.elements {
            let mut element = Element { name: format!("{name}/{}", e.name).into(), ..e.clone() };
            if element.class == LINK {
                element.config = nested(name, &element.config).into();
            }
            joined.elements.push(element);
        }
        let moved = |p: PortRef| PortRef { element: p.element + first, port: p.port };
        let connections = graph.connections.iter();
        joined.connections.extend(connections.map(|c| Connection {
            from: moved(c.from),
            to: moved(c.to),
            ..c.clone()
        }));
        joined.requirements.extend(graph.requirements.iter().cloned());
    }
    for (number, (from, to)) in groups(ends).into_iter().enumerate() {
        let parts: Vec<String> = from
            .iter()
            .chain(&to)
            .map(|(r, e)| {
                let element = &graphs[*r].elements[*e];
                let config = split_args(&element.config);
                let config: Vec<&str> = config.iter().map(|arg| &*arg.text).collect();
                format!(
                    "{} {} {}, {}",
                    routers[*r].0,
                    element.name,
                    element.class,
                    lang::config::quote(&config.join(", "))
                )
            })
            .collect();
        let link = joined.elements.len();
        let like = graphs[from[0].0].elements[from[0].1].clone();
        let name = format!("link{}", number + 1);
        joined.elements.push(Element {
            name: name.into(),
            class: LINK.into(),
            config: parts.join(", ").into(),
            ..like
        });
        let at = |(r, e): &End| base[*r] + e;
        for c in &mut joined.connections {
            if let Some(port) = from.iter().position(|end| at(end) == c.to.element) {
                c.to = PortRef { element: link, port };
            }
            if let Some(port) = to.iter().position(|end| at(end) == c.from.element) {
                c.from = PortRef { element: link, port };
            }
        }
    }
    let gone: BTreeSet<usize> =
        ends.iter().flat_map(|(from, to)| [from, to]).map(|(r, e)| base[*r] + e).collect();
    without(joined, &gone)
}

/// The name of the router that a link's part belongs to has another router's before it.
fn nested(router: &str, config: &str) -> String {
    let args = split_args(config);
    let args = args.iter().enumerate().map(|(i, arg)| match i % 2 {
        0 => format!("{router}/{}", arg.text),
        _ => arg.text.to_string(),
    });
    args.collect::<Vec<_>>().join(", ")
}

/// Links that share an end are one.
fn groups(ends: &[(End, End)]) -> Vec<(Vec<End>, Vec<End>)> {
    let mut groups: Vec<(Vec<End>, Vec<End>)> = Vec::new();
    for (from, to) in ends {
        let (touching, mut others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|(f, t)| f.contains(from) || t.contains(to));
        let mut group = (Vec::new(), Vec::new());
        for (f, t) in touching {
            group.0.extend(f);
            group.1.extend(t);
        }
        for (side, end) in [(&mut group.0, from), (&mut group.1, to)] {
            if !side.contains(end) {
                side.push(*end);
            }
        }
        others.push(group);
        groups = others;
    }
    groups
}

/// A graph without these elements and what led to them.
fn without(graph: Graph, gone: &BTreeSet<usize>) -> Graph {
    let mut number = Vec::new();
    let mut left = 0;
    for e in 0..graph.elements.len() {
        number.push((!gone.contains(&e)).then_some(left));
        left += usize::from(!gone.contains(&e));
    }
    let moved = |p: PortRef| number[p.element].map(|element| PortRef { element, port: p.port });
    let connections = graph.connections.iter();
    let connections = connections
        .filter_map(|c| Some(Connection { from: moved(c.from)?, to: moved(c.to)?, ..c.clone() }))
        .collect();
    let elements = graph.elements.into_iter().enumerate().filter(|(e, _)| !gone.contains(e)).map(|(_, e)| e);
    Graph { elements: elements.collect(), connections, requirements: graph.requirements, ..Graph::default() }
}

/// Takes a router out of a combined configuration; where it was linked it has its devices again.
///
/// # Errors
/// There is no router of this name.
pub(crate) fn extract(graph: &Graph, router: &str) -> Result<Graph, String> {
    let prefix = format!("{router}/");
    let mut taken = Graph { requirements: graph.requirements.clone(), ..Graph::default() };
    let mut number = vec![None; graph.elements.len()];
    for (e, element) in graph.elements.iter().enumerate() {
        if let Some(name) = element.name.strip_prefix(&prefix) {
            number[e] = Some(taken.elements.len());
            taken.elements.push(Element { name: name.into(), ..element.clone() });
        }
    }
    let place = |p: PortRef| number[p.element].map(|element| PortRef { element, port: p.port });
    for (e, element) in graph.elements.iter().enumerate().filter(|(_, e)| e.class == LINK) {
        let args = split_args(&element.config);
        let inputs =
            graph.connections.iter().filter(|c| c.to.element == e).map(|c| c.to.port + 1).max().unwrap_or(0);
        for (port, pair) in args.chunks(2).enumerate() {
            let words: Vec<String> = split_words(&pair[0].text).iter().map(|w| unquote_string(w)).collect();
            let [owner, name, class] = &words[..] else { continue };
            if owner != router {
                continue;
            }
            let end = taken.elements.len();
            let config = pair.get(1).map(|config| unquote_string(&config.text)).unwrap_or_default();
            let (name, class) = (name.clone(), class.clone());
            taken.elements.push(Element {
                name: name.into(),
                class: class.into(),
                config: config.into(),
                ..element.clone()
            });
            let end = PortRef { element: end, port: 0 };
            for c in &graph.connections {
                if port < inputs && c.to.element == e && c.to.port == port {
                    taken.connections.extend(place(c.from).map(|from| Connection {
                        from,
                        to: end,
                        ..c.clone()
                    }));
                }
                if port >= inputs && c.from.element == e && c.from.port == port - inputs {
                    taken.connections.extend(place(c.to).map(|to| Connection { from: end, to, ..c.clone() }));
                }
            }
        }
    }
    if taken.elements.is_empty() {
        return Err(format!("no component named '{router}'"));
    }
    let inside = graph.connections.iter();
    taken.connections.extend(
        inside.filter_map(|c| Some(Connection { from: place(c.from)?, to: place(c.to)?, ..c.clone() })),
    );
    taken.connections.sort_by_key(|c| (c.from, c.to));
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routers() -> Vec<(String, Input)> {
        let text = |t: &str| Input::Text(t.to_owned());
        vec![
            ("a".into(), text("FromDevice(eth0, SNIFFER false) -> q :: Queue(5) -> ToDevice(eth1);")),
            ("b".into(), text("in :: FromDevice(eth0) -> c :: Counter -> Queue -> ToDevice(eth1);")),
        ]
    }

    #[test]
    fn routers_are_linked_and_taken_apart() {
        let links = ["a.eth1=b.eth0".to_owned(), "b.eth1 = a.eth0".to_owned()];
        let both = combine(&routers(), &links).unwrap();
        let text = both.to_click();
        let classes: Vec<&str> = both.elements.iter().map(|e| e.class.as_str()).collect();
        assert_eq!(classes, ["Queue", "Counter", "Queue", "RouterLink", "RouterLink"], "{text}");
        let link = "link1 :: RouterLink(a ToDevice@3 ToDevice, \"eth1\", b in FromDevice, \"eth0\");";
        assert!(text.contains(link), "{text}");
        // It reads back, and each comes out as it went in.
        let both = load(&Input::Text(text)).unwrap();
        for (name, input) in routers() {
            let mut was = load(&input).unwrap();
            let got = extract(&both, &name).unwrap();
            let sorted = |graph: &Graph| {
                let mut lines: Vec<String> =
                    graph.elements.iter().map(|e| format!("{} {} {}", e.name, e.class, e.config)).collect();
                lines.sort();
                lines
            };
            assert_eq!(sorted(&got), sorted(&was));
            assert_eq!(got.connections.len(), was.connections.len());
            was.elements.clear();
        }
        assert!(extract(&both, "c").unwrap_err().contains("no component named 'c'"));
    }

    #[test]
    fn mistakes_are_named() {
        let why = |link: &str| combine(&routers(), &[link.to_owned()]).unwrap_err();
        assert_eq!(why("a.eth1"), "bad link definition 'a.eth1'");
        assert_eq!(why("x.eth1=b.eth0"), "no router named 'x'");
        assert!(why("a.eth7=b.eth0").contains("router 'a' has no element or device named 'eth7'"));
        assert!(combine(&[], &[]).unwrap_err().contains("no routers specified"));
        let twice = [routers()[0].clone(), routers()[0].clone()];
        assert_eq!(combine(&twice, &[]).unwrap_err(), "two routers named 'a'");
    }
}
