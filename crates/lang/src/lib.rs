// SPDX-License-Identifier: MIT OR Apache-2.0
//! Click's configuration language: from text to a flat graph of elements, with diagnostics.
//!
//! ```
//! use junctor_lang::{Options, load_str};
//!
//! let parsed = load_str(
//!     "example",
//!     "elementclass Pair { $n | input -> Counter -> Queue($n) -> output }
//!      InfiniteSource -> Pair(10) -> Unqueue -> Discard",
//!     &Options::default(),
//! );
//! let graph = parsed.graph.expect("no errors");
//! let names: Vec<&str> = graph.elements.iter().map(|e| e.name.as_str()).collect();
//! assert_eq!(names, ["InfiniteSource@1", "Unqueue@3", "Discard@4", "Pair@2/Counter@1", "Pair@2/Queue@2"]);
//! assert_eq!(graph.elements[4].config, "10");
//! ```
//!
//! The steps are:
//!
//! 1. `lexer` and `parser` make a tree (`ast`).
//! 2. `resolve` gives each name its meaning and lists each compound's elements and connections.
//! 3. `expand` copies compounds into place and replaces `variables`.
//! 4. `splice` lays connections through what compounds leave behind.
//!
//! [`config`] has the rules for what stands between parentheses, for elements too. Element classes are known here only through [`Options::classes`].
//!
//! Input of any kind ends in a graph or in diagnostics, in bounded time and memory: nesting, expansion, text, ports and
//! messages all have limits.
#![forbid(unsafe_code)]

use std::io::Read as _;
use std::path::{Path, PathBuf};

mod archive;
mod ast;
pub mod config;
mod connect;
mod diagnostic;
mod expand;
mod graph;
mod lexer;
mod library;
mod parser;
mod print;
mod program;
mod render;
mod resolve;
mod source;
mod splice;
mod suggest;
pub mod syntax;
mod template;
mod text;
mod variables;

pub use diagnostic::{Diagnostic, Severity};
pub use graph::{Connection, Element, Graph, PortRef, Requirement};
pub use render::{render, render_click, render_short, to_json};
pub use source::{Location, SourceMap, Span};
pub use suggest::suggest;
pub use template::{Fault, Template, Use};
pub use text::Text;
pub use variables::{Lookup, substitute};

use diagnostic::Sink;
use program::TOP;

/// How to read a configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `NAME=VALUE` from the command line; they win over the file's own `define`.
    pub defines: Vec<(String, String)>,
    /// Directories to look for required libraries in (`CLICKPATH`), each and its `conf`.
    pub search_path: Vec<PathBuf>,
    /// The element classes that exist. With them, unknown classes are found here, and a name is an element or a class
    /// exactly as in Click. Without (empty), a name that starts with a capital letter or has a configuration is taken for
    /// a class.
    pub classes: Vec<String>,
    /// Classes whose bodies are written to order. What the configuration itself defines under such a name goes first.
    pub templates: Vec<Template>,
    /// Only libraries in these directories and those below are read; another one is an error. `None` allows libraries anywhere.
    pub library_roots: Option<Vec<PathBuf>>,
}

/// What came of a configuration.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// All texts that spans refer to; the configuration itself is file 0.
    pub sources: SourceMap,
    /// The graph; `None` when there are errors.
    pub graph: Option<Graph>,
    /// Errors and warnings in the order of the source.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// Whether any diagnostic is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }
}

/// Reads a configuration from a file: text, or an `ar` archive with a member called `config`.
#[must_use]
pub fn load_file(path: impl AsRef<Path>, options: &Options) -> Parsed {
    let path = path.as_ref();
    let name = path.display().to_string();
    match read_file(path) {
        Ok(data) => load_data(&name, Some(path), &data, options),
        Err(error) => failed(&name, *error),
    }
}

/// The largest text or archive that is taken for a configuration. It holds a million routes several times over.
pub const MOST_BYTES: u64 = 256 << 20;

/// Reads all of a configuration's text, up to [`MOST_BYTES`].
///
/// # Errors
/// It cannot be read, or is larger.
pub fn read_text_of(name: &str, input: impl std::io::Read) -> Result<Vec<u8>, Box<Diagnostic>> {
    let mut data = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut data).map_err(|error| unreadable(name, &error))?;
    if data.len() as u64 > MOST_BYTES {
        let message =
            format!("{name}: larger than {} MiB, the most that a configuration may have", MOST_BYTES >> 20);
        return Err(Box::new(
            Diagnostic::error("E0601", message)
                .help("elements such as LookupIPRoute read long tables with FILE"),
        ));
    }
    Ok(data)
}

/// Reads a configuration's file: a regular one, or a pipe, whose writer must have come.
///
/// # Errors
/// As for [`read_text_of`], or what it is cannot hold a configuration.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Box<Diagnostic>> {
    use std::os::unix::fs::FileTypeExt as _;
    let name = path.display().to_string();
    let about = std::fs::metadata(path).map_err(|error| unreadable(&name, &error))?;
    let kind = about.file_type();
    let wrong = match () {
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_block_device() => Some("a block device"),
        () if kind.is_socket() => Some("a socket"),
        () => None,
    };
    if let Some(wrong) = wrong {
        let message = format!("{name}: it is {wrong}, not a file with a configuration");
        return Err(Box::new(Diagnostic::error("E0601", message).help("check the path")));
    }
    let file = std::fs::File::open(path).map_err(|error| unreadable(&name, &error))?;
    read_text_of(&name, file)
}

fn unreadable(name: &str, error: &std::io::Error) -> Box<Diagnostic> {
    let help = match error.kind() {
        std::io::ErrorKind::NotFound => "check the path",
        std::io::ErrorKind::PermissionDenied => "make the file readable for this user",
        _ => "the configuration must be a readable file",
    };
    // Without the number that Rust adds.
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    Box::new(Diagnostic::error("E0601", format!("{name}: {text}")).help(help))
}

/// Reads a configuration from bytes, as from standard input: text, or an archive as for [`load_file`].
#[must_use]
pub fn load_bytes(name: &str, data: &[u8], options: &Options) -> Parsed {
    load_data(name, None, data, options)
}

/// Reads a configuration from a text.
#[must_use]
pub fn load_str(name: &str, text: &str, options: &Options) -> Parsed {
    read_text(name, None, text, options, Sink::default())
}

/// What came of a configuration that could not be read.
#[must_use]
pub fn failed(name: &str, diagnostic: Diagnostic) -> Parsed {
    let mut sources = SourceMap::new();
    sources.add(name, "");
    Parsed { sources, graph: None, diagnostics: vec![diagnostic] }
}

/// Reads a configuration from bytes that somebody has read from `path`, if there is one.
#[must_use]
pub fn load_data(name: &str, path: Option<&Path>, data: &[u8], options: &Options) -> Parsed {
    let mut members = Vec::new();
    let mut text = data;
    if archive::is_archive(data) {
        members = match archive::members(data) {
            Ok(members) => members,
            Err(error) => {
                return failed(
                    name,
                    Diagnostic::error("E0602", format!("{name}: not a sound archive: {error}")),
                );
            }
        };
        text = match members.iter().find(|(name, _)| name == "config") {
            Some((_, body)) => body,
            None => {
                let diagnostic =
                    Diagnostic::error("E0602", format!("{name}: archive has no member 'config'"));
                return failed(name, diagnostic.help("`ar q ARCHIVE config` adds one"));
            }
        };
    }
    let mut sink = Sink::default();
    if text.len() >= u32::MAX as usize {
        return failed(name, Diagnostic::error("E0601", format!("{name}: larger than 4 GiB")));
    }
    let valid = std::str::from_utf8(text);
    if let Err(error) = &valid {
        let mark = data_mark(text);
        let at = (error.valid_up_to() - mark) as u32;
        sink.push(
            Diagnostic::warning("W0203", "bytes that aren't UTF-8 are replaced")
                .at(Span { file: 0, start: at, end: at })
                .help("write such bytes as \\<hex> in configuration strings"),
        );
    }
    let text = String::from_utf8_lossy(text);
    let mut parsed = read_text(name, path, &text, options, sink);
    if let Some(graph) = &mut parsed.graph {
        graph.archive = members.into_iter().filter(|(name, _)| name != "config").collect();
    }
    parsed
}

/// Bytes of the byte order mark before a text.
fn data_mark(text: &[u8]) -> usize {
    let mark = source::BYTE_ORDER_MARK.to_string();
    if text.starts_with(mark.as_bytes()) { mark.len() } else { 0 }
}

fn read_text(name: &str, path: Option<&Path>, text: &str, options: &Options, mut sink: Sink) -> Parsed {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let statements = parser::parse(&mut sources, &mut sink, file);
    let main = path.map(library::identity);
    let mut resolved = resolve::resolve(&mut sources, &mut sink, options, main, file, statements);
    let bytes = (0..sources.len()).map(|f| sources.text(f as u32).len()).sum();
    let program = &mut resolved.program;
    let flat = expand::expand_all(program, &mut sink, options, &sources, bytes);
    // When connections are in doubt, messages about ports would only repeat what is wrong already.
    if sink.shape_is_sound() {
        splice::check_tunnels(&flat, &mut sink);
    }
    let wires = if sink.errors() == 0 { splice::splice(&flat, &mut sink) } else { Vec::new() };
    if sink.errors() > 0 {
        return Parsed { sources, graph: None, diagnostics: sink.finish() };
    }
    advise(&resolved, &mut sink);
    let mut index = vec![usize::MAX; flat.nodes.len()];
    let is_element = |node: &&expand::Node| matches!(node.slot.kind, program::SlotKind::Element(_));
    let mut elements = Vec::with_capacity(flat.nodes.iter().filter(is_element).count());
    for (i, node) in flat.nodes.into_iter().enumerate() {
        if let Some(element) = expand::element(&resolved.program, node.slot) {
            index[i] = elements.len();
            elements.push(element);
        }
    }
    let port = |(node, port): (usize, u32)| PortRef { element: index[node], port: port as usize };
    let connections =
        wires.iter().map(|w| Connection { from: port(w.from), to: port(w.to), span: w.span }).collect();
    let text = sources.shared_text(0);
    let requirements = resolved.requirements;
    let graph = Graph { elements, connections, requirements, text, archive: Vec::new() };
    Parsed { sources, graph: Some(graph), diagnostics: sink.finish() }
}

/// Advice on what the configuration defines and never uses. Libraries define more than any one user needs.
fn advise(resolved: &resolve::Resolved, sink: &mut Sink) {
    for (name, span) in &resolved.unused_classes {
        sink.push(Diagnostic::warning("W0201", format!("element class '{name}' is never used")).at(*span));
    }
    for (id, body) in resolved.program.bodies.iter().enumerate() {
        for parameter in
            body.parameters.iter().filter(|p| !p.used && p.span.file == 0 && p.keyword != "__REST__")
        {
            if id != TOP && body.expanded {
                let message = format!("parameter '${}' is never used", parameter.name);
                sink.push(Diagnostic::warning("W0204", message).at(parameter.span));
            }
        }
    }
}
