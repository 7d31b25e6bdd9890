// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tree to bodies: statements are taken in order, and every name gets its meaning at the place where it stands.
//!
//! Class names are scoped lexically and by position: a definition counts from its end to the end of the compound around
//! it, so a class can wrap an older class of the same name and can never contain itself. Elements are known in their own
//! body only.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::Options;
use crate::ast::{BodyDef, Chain, Config, Ident, Item, Link, Ports, Stmt, What};
use crate::connect::{End, join};
use crate::diagnostic::{Diagnostic, Sink};
use crate::graph::Requirement;
use crate::program::{BodyId, Program, Slot, SlotKind, TOP, Type, TypeId};
use crate::source::{SourceMap, Span};
use crate::suggest::suggest;
use crate::text::Text;

mod builder;
mod classes;
mod require;

use builder::{Builder, check_pseudo};

/// Libraries that require libraries, this deep at most.
const MAX_LIBRARY_DEPTH: usize = 32;

/// Everything that the file and its libraries say.
pub(crate) struct Resolved {
    pub(crate) program: Program,
    pub(crate) requirements: Vec<Requirement>,
    /// `elementclass` names that nothing uses: name, place.
    pub(crate) unused_classes: Vec<(Text, Span)>,
}

/// Resolves the statements of a file.
pub(crate) fn resolve(
    sources: &mut SourceMap,
    sink: &mut Sink,
    options: &Options,
    main: Option<PathBuf>,
    file: u32,
    statements: Vec<Stmt>,
) -> Resolved {
    let span = Span { file, start: 0, end: 0 };
    let program = Program { types: Vec::new(), bodies: vec![Builder::new("", span, 0).body] };
    let mut resolver = Resolver::new(sources, sink, options, program, span);
    resolver.libraries = main.into_iter().collect();
    // Each statement is gone when it has been taken up: of a large configuration, tree and program do not fit in memory at once.
    for statement in statements {
        resolver.statement(&statement);
    }
    let top = resolver.finish_body();
    resolver.program.bodies[TOP] = top;
    let used = resolver.used_types;
    let unused = resolver.classes.into_iter().filter(|(_, _, id)| !used.contains(id));
    Resolved {
        program: resolver.program,
        requirements: resolver.requirements,
        unused_classes: unused.map(|(name, span, _)| (name, span)).collect(),
    }
}

struct Resolver<'a> {
    sources: &'a mut SourceMap,
    sink: &'a mut Sink,
    options: &'a Options,
    /// Classes of the engine; empty if not given.
    known: foldhash::HashSet<&'a str>,
    program: Program,
    /// Classes defined by the configuration, as seen from here.
    types: foldhash::HashMap<Text, TypeId>,
    /// What `types` said before each definition made in an open compound, to go back to.
    hidden: Vec<(Text, Option<TypeId>)>,
    primitives: HashMap<Text, TypeId>,
    /// Names of the classes whose definitions are open.
    defining: Vec<Text>,
    builders: Vec<Builder>,
    /// `elementclass` statements of the main file.
    classes: Vec<(Text, Span, TypeId)>,
    used_types: HashSet<TypeId>,
    requirements: Vec<Requirement>,
    libraries: HashSet<PathBuf>,
    library_depth: usize,
}

/// Resolves a text as the body of a compound class, and adds it to the program. It sees no class of the configuration.
pub(crate) fn resolve_body(
    sources: &mut SourceMap,
    sink: &mut Sink,
    options: &Options,
    program: &mut Program,
    file: u32,
    name: &str,
) -> BodyId {
    let statements = crate::parser::parse(sources, sink, file);
    let span = Span { file, start: 0, end: 0 };
    let mut resolver = Resolver::new(sources, sink, options, std::mem::take(program), span);
    let body = resolver.body(&BodyDef { formals: Vec::new(), statements, span, whole: span }, name);
    *program = resolver.program;
    program.bodies.push(body);
    program.bodies.len() - 1
}

impl<'a> Resolver<'a> {
    fn new(
        sources: &'a mut SourceMap,
        sink: &'a mut Sink,
        options: &'a Options,
        program: Program,
        span: Span,
    ) -> Resolver<'a> {
        let mut known: foldhash::HashSet<&str> = options.classes.iter().map(String::as_str).collect();
        if !known.is_empty() {
            known.extend(options.templates.iter().map(|t| t.name));
        }
        Resolver {
            sources,
            sink,
            options,
            known,
            program,
            types: foldhash::HashMap::default(),
            hidden: Vec::new(),
            primitives: HashMap::new(),
            defining: Vec::new(),
            builders: vec![Builder::new("", span, 0)],
            classes: Vec::new(),
            used_types: HashSet::new(),
            requirements: Vec::new(),
            libraries: HashSet::new(),
            library_depth: 0,
        }
    }
}

impl Resolver<'_> {
    fn here(&mut self) -> &mut Builder {
        self.builders.last_mut().expect("the file's own body is always open")
    }

    fn statements(&mut self, statements: &[Stmt]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Class(class) => self.class_def(class),
            Stmt::Require(config) => self.require(config),
            Stmt::Define(config) => self.define(config),
            Stmt::Chain(chain) => self.chain(chain),
        }
    }

    fn chain(&mut self, chain: &Chain) {
        let mut left: Option<Vec<End>> = None;
        for (i, set) in chain.sets.iter().enumerate() {
            let (inputs, outputs) = self.item_list(set, chain.spread);
            match (left.replace(outputs), i.checked_sub(1).and_then(|i| chain.links.get(i))) {
                (Some(left), Some(link)) => self.join(&left, &inputs, *link),
                _ => self.ignored(
                    set.iter().find_map(|i| i.inputs.as_deref()),
                    "input ports ignored at start of chain",
                ),
            }
        }
        let last = chain.sets.last().and_then(|set| set.iter().find_map(|i| i.outputs.as_deref()));
        self.ignored(last, "output ports ignored at end of chain");
    }

    fn ignored(&mut self, ports: Option<&Ports>, message: &str) {
        if let Some(ports) = ports {
            let label = "no arrow joins these ports to anything";
            self.sink.push(Diagnostic::error("E0304", message).at(ports.span).label(label));
        }
    }

    fn join(&mut self, left: &[End], right: &[End], link: Link) {
        let (pairs, problem) = join(left, right, link.double, link.span);
        if let Some(problem) = problem {
            self.sink.push(problem);
        }
        for (from, to) in pairs {
            self.here().connect(from, to, link.span);
        }
    }

    /// The elements of a list, as inputs and as outputs of a connection. Groups and compounds come into being first,
    /// as in Click, which numbers anonymous elements in this order.
    fn item_list(&mut self, items: &[Item], spread: bool) -> (Vec<End>, Vec<End>) {
        let mut prepared: Vec<Prepared> = Vec::with_capacity(items.len());
        for item in items {
            let inner = match &item.what {
                What::Group(statements) => Inner::Group(self.group(statements, item.span)),
                What::Compound(def) => {
                    let anonymous = Ident { text: Text::default(), span: def.span };
                    Inner::Compound(self.compound(def, &anonymous))
                }
                What::Name(_) | What::Implicit { .. } => Inner::None,
            };
            let class = item.class.as_ref().map(|class| self.class_ref(class));
            prepared.push(Prepared { inner, class });
        }
        if spread {
            let class = prepared.last().and_then(|p| p.class);
            prepared.iter_mut().for_each(|p| p.class = class);
        }
        let config = if spread { items.last().and_then(|i| i.config.as_ref()) } else { None };
        let mut sides = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for (item, prepared) in items.iter().zip(prepared) {
            let slot = self.item(item, &prepared, item.config.as_ref().or(config));
            let end = |ports: &Option<Box<Ports>>, implied: &[u32]| match ports {
                Some(p) => End { slot, ports: p.list.clone(), expandable: p.expandable, span: item.span },
                None => End { slot, ports: implied.to_vec(), expandable: false, span: item.span },
            };
            let counts = match prepared.inner {
                Inner::Group((_, counts)) => counts,
                _ => [0, 0],
            };
            let implied = counts.map(|n| (0..n).collect::<Vec<u32>>());
            sides.0.push(end(&item.inputs, &implied[0]));
            sides.1.push(end(&item.outputs, &implied[1]));
        }
        sides
    }

    /// The slot that an item of a list means; declared if need be.
    fn item(&mut self, item: &Item, prepared: &Prepared, config: Option<&Config>) -> usize {
        match (&item.what, &prepared.inner) {
            (What::Implicit { output }, _) => {
                let pair = self.here().pseudo.last().copied();
                match pair {
                    Some(pair) => pair[usize::from(*output)],
                    None => self.broken("input", item.span),
                }
            }
            (_, Inner::Group((slot, _))) => {
                if prepared.class.is_some() {
                    self.named_twice(item.span, "an element group");
                }
                if let Some(config) = config {
                    self.config_ignored(config);
                }
                *slot
            }
            (_, Inner::Compound(id)) => {
                if prepared.class.is_some() {
                    self.named_twice(item.span, "a compound element");
                }
                self.anonymous(*id, "", item.span, config)
            }
            (What::Name(name), Inner::None) => self.named(name, prepared.class, config),
            (What::Group(_) | What::Compound(_), Inner::None) => self.broken("", item.span),
        }
    }

    fn named_twice(&mut self, span: Span, what: &str) {
        self.sink.push(
            Diagnostic::error("E0204", format!("{what} used as element name"))
                .at(span)
                .help("write `name :: { ... }` to name a compound element"),
        );
    }

    fn config_ignored(&mut self, config: &Config) {
        self.sink.push(
            Diagnostic::error("E0206", "configuration string ignored on element reference")
                .at(config.span)
                .label("only a declaration takes a configuration"),
        );
    }

    /// A name in a chain: an element declared before, one declared here, or a class for an anonymous element.
    fn named(&mut self, name: &Ident, class: Option<(TypeId, Span)>, config: Option<&Config>) -> usize {
        let as_class = self.types.get(&name.text).copied();
        if as_class.is_some() || self.known.contains(name.text.as_str()) {
            if class.is_some() {
                self.sink.push(
                    Diagnostic::error("E0204", format!("class '{}' used as element name", name.text))
                        .at(name.span)
                        .help("give the element a name that no class has"),
                );
            }
            let id = as_class.unwrap_or_else(|| self.primitive(&name.text));
            self.used_types.insert(id);
            return self.anonymous(id, &name.text, name.span, config);
        }
        if let Some(slot) = self.here().find(&name.text) {
            if let Some(config) = config {
                self.config_ignored(config);
            }
            if class.is_some() {
                self.redeclared(name, slot);
            }
            return slot;
        }
        if let Some((id, class_span)) = class {
            return self.declare(name, id, class_span, config);
        }
        // Without a list of classes, what looks like a class is taken for one: the engine will know.
        let looks_like_class = config.is_some() || name.text.starts_with(|c: char| c.is_ascii_uppercase());
        if self.known.is_empty() && looks_like_class {
            if config.is_none() {
                self.here().guessed.entry(name.text.clone()).or_insert(name.span);
            }
            let id = self.primitive(&name.text);
            return self.anonymous(id, &name.text, name.span, config);
        }
        if let Some(&slot) = self.here().undeclared.get(&name.text) {
            return slot;
        }
        let slot = self.broken(&name.text, name.span);
        self.here().undeclared.insert(name.text.clone(), slot);
        slot
    }

    fn redeclared(&mut self, name: &Ident, slot: usize) {
        let before = &self.here().body.slots[slot];
        let (kind, span) = (before.kind, before.span);
        let mut diagnostic =
            Diagnostic::error("E0202", format!("redeclaration of element '{}'", name.text)).at(name.span);
        diagnostic = if matches!(kind, SlotKind::Element(_)) {
            diagnostic.note(span, format!("element '{}' previously declared here", name.text))
        } else {
            diagnostic.label("here this name stands for the connections from or to the outside")
        };
        self.sink.push(diagnostic);
    }

    /// Complains about the undeclared names of a body that's complete, so that later declarations are known.
    fn report_undeclared(&mut self, builder: &Builder) {
        let slots = &builder.body.slots;
        let mut names: Vec<(&str, Span)> =
            builder.undeclared.iter().map(|(name, &slot)| (name.as_str(), slots[slot].span)).collect();
        let declared = |name: &&str| builder.names.contains_key(*name);
        names.extend(
            builder.guessed.iter().map(|(name, &span)| (name.as_str(), span)).filter(|(n, _)| declared(n)),
        );
        names.sort_by_key(|(_, span)| (span.file, span.start));
        for (name, span) in names {
            let diagnostic = Diagnostic::error("E0201", format!("undeclared element '{name}'")).at(span);
            let diagnostic = self.explain_undeclared(builder, name, diagnostic);
            self.sink.push(diagnostic);
        }
    }

    fn explain_undeclared(&mut self, builder: &Builder, name: &str, diagnostic: Diagnostic) -> Diagnostic {
        if let Some(&slot) = builder.names.get(name) {
            return diagnostic
                .label("not declared yet")
                .note(builder.body.slots[slot].span, "declared only here")
                .help("move the declaration before the first use");
        }
        let outside =
            self.builders.iter().rev().find_map(|b| b.names.get(name).map(|&slot| &b.body.slots[slot]));
        if let Some(slot) = outside {
            return diagnostic
                .label("not known in this compound element")
                .note(slot.span, "declared outside, here")
                .help("a compound reaches the outside only through `input` and `output`");
        }
        if matches!(name, "input" | "output") {
            return diagnostic.help("`input` and `output` exist only inside `{ ... }` and `( ... )`");
        }
        let diagnostic = diagnostic.label("neither an element nor a class has this name");
        if !self.sink.may_suggest() {
            return diagnostic;
        }
        let known = self.known.iter().copied();
        let all = builder.names.keys().chain(self.types.keys()).map(Text::as_str).chain(known);
        diagnostic.did_you_mean(suggest(name, all))
    }

    /// A slot that stands in for something wrong.
    fn broken(&mut self, name: &str, span: Span) -> usize {
        let id = self.new_type(Type::Broken);
        self.here().add(name.into(), SlotKind::Element(id), span)
    }

    fn anonymous(&mut self, id: TypeId, class: &str, span: Span, config: Option<&Config>) -> usize {
        let name = self.here().anonymous_name(class);
        let slot = self.here().add(name.into(), SlotKind::Element(id), span);
        let new = &mut self.here().body.slots[slot];
        new.anonymous = true;
        set_config(new, config);
        slot
    }

    fn declare(&mut self, name: &Ident, id: TypeId, class_span: Span, config: Option<&Config>) -> usize {
        if name.text.split('/').any(|part| part.bytes().all(|b| b.is_ascii_digit())) {
            self.sink.push(
                Diagnostic::error("E0205", format!("element name '{}' has all-digit component", name.text))
                    .at(name.span)
                    .help("names of digits alone would be taken for numbers; add a letter"),
            );
        }
        let slot = self.here().add(name.text.clone(), SlotKind::Element(id), name.span);
        self.here().names.insert(name.text.clone(), slot);
        let new = &mut self.here().body.slots[slot];
        new.class_span = class_span;
        set_config(new, config);
        slot
    }

    /// Resolves a group: its slot, and how many inputs and outputs it has.
    fn group(&mut self, statements: &[Stmt], span: Span) -> (usize, [u32; 2]) {
        let builder = self.here();
        let slot = builder.add("group".into(), SlotKind::Group, span);
        let pair = builder.add_pseudo(span);
        builder.pseudo.push(pair);
        self.statements(statements);
        let builder = self.builders.last_mut().expect("the file's own body is always open");
        builder.pseudo.pop();
        check_pseudo(self.sink, builder, pair, "<anonymous group>", span);
        (slot, [builder.body.slots[pair[0]].ports[1], builder.body.slots[pair[1]].ports[0]])
    }
}

/// What was made of an item before its name is looked up.
struct Prepared {
    inner: Inner,
    class: Option<(TypeId, Span)>,
}

enum Inner {
    None,
    Group((usize, [u32; 2])),
    Compound(TypeId),
}

fn set_config(slot: &mut Slot, config: Option<&Config>) {
    if let Some(config) = config {
        slot.config.clone_from(&config.text);
        slot.config_span = Some(config.span);
    }
}
