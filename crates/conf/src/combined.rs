// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several configurations become one, joined where one router's device meets another's; and back.
//!
//! Each router's elements are named ROUTER/ELEMENT. A link `a.eth0=b.eth1` puts a [`LINK`] in the place of router a's ToDevice(eth0) and router b's
//! FromDevice(eth1). [`extract`] takes one router out again.

use std::collections::BTreeSet;

use lang::config::{split_args, split_words, unquote_string};
use lang::{Connection, Element, Graph, PortRef};

use crate::Source;

/// The class of what stands for the cables between routers.
pub const LINK: &str = "RouterLink";

/// A router of a network: its name, and its configuration.
pub type Router = (String, Source);

/// Why configurations cannot be combined or taken apart.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A configuration cannot be read or is wrong: diagnostics in Click's form.
    #[error("{0}")]
    Configuration(String),
    /// Elements could not be named after this router.
    #[error("router name '{0}' is not a legal Click identifier")]
    Name(String),
    /// Two routers have one name.
    #[error("two routers named '{0}'")]
    Twice(String),
    /// There is nothing to combine.
    #[error("no routers specified")]
    NoRouters,
    /// A link has another form than ROUTER.DEVICE=ROUTER.DEVICE.
    #[error("bad link definition '{0}'")]
    Link(String),
    /// A link names a router that there is not.
    #[error("no router named '{0}'")]
    NoRouter(String),
    /// A link names a device that there is not, or that several elements open.
    #[error("router '{router}' has no element or device named '{element}', or several")]
    NoEnd {
        /// The router.
        router: String,
        /// The element or device.
        element: String,
    },
    /// Packets leave by an element of a link, and others arrive by it.
    #[error("router '{router}' element '{element}' used as both source and destination")]
    BothEnds {
        /// The router.
        router: String,
        /// The element.
        element: String,
    },
    /// The combination has no router of this name.
    #[error("no component named '{0}'")]
    NoComponent(String),
    /// All that is wrong, a line each.
    #[error("{}", lines(.0))]
    Several(Vec<Error>),
}

fn lines(all: &[Error]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads a configuration.
///
/// # Errors
/// What is wrong with it.
pub fn load(source: &Source) -> Result<Graph, Error> {
    let loaded = source.load();
    let said = || lang::render_click(&loaded.diagnostics, &loaded.sources).trim_end().to_owned();
    loaded.graph.ok_or_else(|| Error::Configuration(said()))
}

/// One end of a link: a router, and its element.
type End = (usize, usize);

/// Combines routers.
///
/// # Errors
/// All that is wrong.
pub fn combine(routers: &[Router], links: &[String]) -> Result<Graph, Error> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (name, _) in routers {
        let legal = name.split('/').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'@'))
        });
        if !legal {
            errors.push(Error::Name(name.clone()));
        }
        if !names.insert(name) {
            errors.push(Error::Twice(name.clone()));
        }
    }
    if routers.is_empty() {
        errors.push(Error::NoRouters);
    }
    let mut graphs = Vec::new();
    for (_, input) in routers {
        match load(input) {
            Ok(graph) => graphs.push(graph),
            Err(why) => errors.push(why),
        }
    }
    if !errors.is_empty() {
        return Err(Error::Several(errors));
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
            let element = graphs[from.0].elements[from.1].name.to_string();
            errors.push(Error::BothEnds { router: routers[from.0].0.clone(), element });
        }
    }
    if errors.is_empty() { Ok(join(routers, &graphs, &ends)) } else { Err(Error::Several(errors)) }
}

/// Finds the ends of `a.eth0=b.eth1`.
fn parse_link(link: &str, routers: &[Router], graphs: &[Graph]) -> Result<(End, End), Error> {
    let bad = || Error::Link(link.to_owned());
    let (from, to) = link.split_once('=').ok_or_else(bad)?;
    let end = |text: &str, classes: &[&str]| {
        let (router, element) = text.trim().split_once('.').ok_or_else(bad)?;
        let number = routers.iter().position(|(name, _)| name == router);
        let number = number.ok_or_else(|| Error::NoRouter(router.to_owned()))?;
        let elements = &graphs[number].elements;
        let device = |e: &Element| {
            let first = split_args(&e.config).first().map(|arg| unquote_string(&arg.text));
            classes.contains(&e.class.as_str()) && first.as_deref() == Some(element)
        };
        let found = elements.iter().position(|e| e.name == element).or_else(|| {
            let mut devices = (0..elements.len()).filter(|e| device(&elements[*e]));
            devices.next().filter(|_| devices.next().is_none())
        });
        let missing = || Error::NoEnd { router: router.to_owned(), element: element.to_owned() };
        found.map(|e| (number, e)).ok_or_else(missing)
    };
    Ok((end(from, &["ToDevice"])?, end(to, &["FromDevice", "PollDevice"])?))
}

/// Puts the graphs side by side, and links in the place of the elements at their ends.
fn join(routers: &[Router], graphs: &[Graph], ends: &[(End, End)]) -> Graph {
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
pub fn extract(graph: &Graph, router: &str) -> Result<Graph, Error> {
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
        return Err(Error::NoComponent(router.to_owned()));
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

    fn routers() -> Vec<Router> {
        let text = |t: &str| Source::text(t);
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
        let both = load(&Source::text(&text)).unwrap();
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
        assert!(extract(&both, "c").unwrap_err().to_string().contains("no component named 'c'"));
    }

    #[test]
    fn mistakes_are_named() {
        let why = |link: &str| combine(&routers(), &[link.to_owned()]).unwrap_err().to_string();
        assert_eq!(why("a.eth1"), "bad link definition 'a.eth1'");
        assert_eq!(why("x.eth1=b.eth0"), "no router named 'x'");
        assert!(why("a.eth7=b.eth0").contains("router 'a' has no element or device named 'eth7'"));
        assert!(combine(&[], &[]).unwrap_err().to_string().contains("no routers specified"));
        let twice = [routers()[0].clone(), routers()[0].clone()];
        assert_eq!(combine(&twice, &[]).unwrap_err().to_string(), "two routers named 'a'");
    }
}
