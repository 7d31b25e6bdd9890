// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens to a tree, with recovery: one slip gives one message, and what follows is still read.
//!
//! ```text
//! statement  = "elementclass" NAME (compound | NAME) | "require" "(" ... ")" | "define" "(" ... ")" | chain | ";"
//! chain      = list { ("->" | "=>") list }
//! list       = item { "," item }
//! item       = [ports] (NAME | compound | "(" {statement} ")") ["::" (NAME | compound)] ["(" config ")"] [ports]
//! compound   = "{" body { "||" body } ["||" "..."] "}"
//! body       = [ [KEYWORD] "$" NAME { "," ... } "|" ] {statement}
//! ports      = "[" [ N | N "-" N | N "-" ] { "," ... } "]"
//! ```
//! In compounds and groups the first or last element of a chain may be left out; it's then `input` or `output`.

use std::collections::VecDeque;

use crate::ast::{Chain, ClassDef, ClassRef, Config, Ident, Item, Link, Ports, Stmt, What};
use crate::diagnostic::{Diagnostic, Sink};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::source::{SourceMap, Span};
use crate::text::Text;

mod compound;
mod ports;

/// Compounds and groups nest this deep at most, which bounds the parser's stack.
pub(crate) const MAX_NESTING: usize = 64;
/// Ports are numbered below this.
pub(crate) const MAX_PORTS: u32 = 1 << 16;

/// Parses one file of a source map.
pub(crate) fn parse(sources: &mut SourceMap, sink: &mut Sink, file: u32) -> Vec<Stmt> {
    parse_all(&mut Parser::new(Lexer::new(sources, sink, file)))
}

/// Parses a file, and keeps what it consists of.
pub(crate) fn parse_pieces(
    sources: &mut SourceMap,
    sink: &mut Sink,
    file: u32,
) -> (Vec<Stmt>, Vec<crate::syntax::Piece>) {
    let mut lexer = Lexer::new(sources, sink, file);
    lexer.keep_pieces();
    let mut parser = Parser::new(lexer);
    let statements = parse_all(&mut parser);
    (statements, parser.lexer.into_pieces())
}

fn parse_all(parser: &mut Parser<'_>) -> Vec<Stmt> {
    let mut statements = Vec::new();
    loop {
        parser.statements(&mut statements);
        let token = parser.peek();
        if token.kind == TokenKind::End {
            return statements;
        }
        parser.next();
        parser.unexpected(token, "nothing is open that this could close");
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Tokens looked at but not yet taken. Only an identifier is ever looked past, so a configuration string that
    /// follows a parenthesis always starts at the lexer's position.
    ahead: VecDeque<Token>,
    depth: usize,
    /// End of the last text complained about: a message right behind it would only repeat it.
    last_in_error: Option<u32>,
}

impl<'a> Parser<'a> {
    fn new(lexer: Lexer<'a>) -> Parser<'a> {
        Parser { lexer, ahead: VecDeque::new(), depth: 0, last_in_error: None }
    }
}

impl Parser<'_> {
    fn peek(&mut self) -> Token {
        self.peek_nth(0)
    }

    fn peek_nth(&mut self, n: usize) -> Token {
        while self.ahead.len() <= n {
            let token = self.lexer.token();
            self.ahead.push_back(token);
        }
        self.ahead[n]
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.ahead.pop_front();
        token
    }

    fn accept(&mut self, kind: TokenKind) -> Option<Token> {
        (self.peek().kind == kind).then(|| self.next())
    }

    fn ident(&self, token: Token) -> Ident {
        Ident { text: self.lexer.str(token.span).into(), span: token.span }
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        self.lexer.sink.push(diagnostic);
    }

    /// Complains about a token that was taken, unless the token right before it was complained about too.
    fn unexpected(&mut self, token: Token, label: &str) {
        let follows = self.follows_error(token);
        self.last_in_error = Some(token.span.end);
        if follows {
            return;
        }
        let near = match token.kind {
            TokenKind::End => "end of file".to_string(),
            _ => self.lexer.str(token.span).to_string(),
        };
        let mut diagnostic =
            Diagnostic::error("E0101", format!("syntax error near '{near}'")).at(token.span).label(label);
        diagnostic.help = hint(token.kind).map(str::to_string);
        self.error(diagnostic);
    }

    /// Skips what is left of a line after an error, up to what ends a statement or a level of nesting.
    fn skip_line(&mut self) {
        let mut end = self.last_in_error.unwrap_or(0);
        loop {
            let token = self.peek();
            let between = self.lexer.span(end as usize, token.span.start.max(end) as usize);
            if self.lexer.str(between).contains(['\n', '\r']) {
                return;
            }
            match token.kind {
                TokenKind::End | TokenKind::Char(';' | '}' | ')') | TokenKind::DoubleBar => return,
                TokenKind::Char('{' | '(') => {
                    self.next();
                    self.skip_balanced();
                    end = self.peek().span.start;
                    continue;
                }
                _ => {
                    self.next();
                }
            }
            end = token.span.end;
        }
    }

    /// Whether nothing but white space lies between a token and the text last complained about.
    fn follows_error(&self, token: Token) -> bool {
        self.last_in_error.is_some_and(|end| {
            let between = self.lexer.span(end as usize, token.span.start.max(end) as usize);
            self.lexer.str(between).trim().is_empty()
        })
    }

    fn expect(&mut self, kind: TokenKind, opened: Option<Span>) -> bool {
        if self.accept(kind).is_some() {
            return true;
        }
        let token = self.peek();
        let mut diagnostic = Diagnostic::error("E0106", format!("expected {}", kind.describe()))
            .at(token.span)
            .label(format!("found {}", self.describe(token)));
        if let Some(span) = opened {
            diagnostic = diagnostic.note(span, "opened here");
        }
        self.error(diagnostic);
        false
    }

    fn describe(&self, token: Token) -> String {
        match token.kind {
            TokenKind::Ident | TokenKind::Variable => {
                format!("{} '{}'", token.kind.describe(), self.lexer.str(token.span))
            }
            kind => kind.describe(),
        }
    }

    /// Statements up to a token that cannot start one: `}`, `||`, `)` or the end, which is left.
    fn statements(&mut self, out: &mut Vec<Stmt>) {
        loop {
            let token = self.peek();
            if !matches!(token.kind, TokenKind::Char('}' | ')' | ';') | TokenKind::DoubleBar) {
                self.lexer.statement_at(token.span.start);
            }
            match token.kind {
                TokenKind::Ident
                | TokenKind::Arrow
                | TokenKind::DoubleArrow
                | TokenKind::Char('[' | '{' | '(') => {
                    if let Some(chain) = self.chain(output_ends(out.last())) {
                        out.push(Stmt::Chain(chain));
                    }
                }
                TokenKind::ElementClass => out.extend(self.class_def().map(Stmt::Class)),
                TokenKind::Require => out.extend(self.parenthesised().map(Stmt::Require)),
                TokenKind::Define => out.extend(self.parenthesised().map(Stmt::Define)),
                TokenKind::Char(';') => {
                    self.next();
                }
                TokenKind::Char('}' | ')') | TokenKind::DoubleBar | TokenKind::End => return,
                TokenKind::Provide => self.provide(),
                _ => {
                    self.next();
                    self.unexpected(token, "expected a statement");
                    self.skip_line();
                }
            }
        }
    }

    fn provide(&mut self) {
        let token = self.next();
        self.error(
            Diagnostic::error("E0108", "syntax error near 'provide'")
                .at(token.span)
                .label("`provide` is a reserved word without a meaning"),
        );
        if self.accept(TokenKind::Char('(')).is_some() {
            self.config();
        }
    }

    /// `require` or `define`, and the string in parentheses that belongs to it.
    fn parenthesised(&mut self) -> Option<Config> {
        self.next();
        if self.accept(TokenKind::Char('(')).is_none() {
            let token = self.peek();
            self.last_in_error = Some(token.span.start);
            self.expect(TokenKind::Char('('), None);
            self.skip_line();
            return None;
        }
        Some(self.config())
    }

    /// A configuration string whose `(` was taken, and its `)`.
    fn config(&mut self) -> Config {
        debug_assert!(self.ahead.is_empty(), "a configuration string starts where the lexer stands");
        let errors = self.lexer.sink.errors();
        let config = self.lexer.config();
        let open = Span { start: config.span.start.saturating_sub(1), end: config.span.start, ..config.span };
        if self.accept(TokenKind::Char(')')).is_none() && self.lexer.sink.errors() == errors {
            self.error(
                Diagnostic::error("E0103", "expected ')'")
                    .at(open)
                    .label("this parenthesis is never closed")
                    .help("balance parentheses, or quote those that aren't meant to balance"),
            );
        }
        config
    }

    fn class_def(&mut self) -> Option<ClassDef> {
        let keyword = self.next();
        let name = match self.accept(TokenKind::Ident) {
            Some(token) => Some(self.ident(token)),
            None => {
                let token = self.peek();
                let label = format!("found {}", self.describe(token));
                self.error(
                    Diagnostic::error("E0106", "expected element type name").at(token.span).label(label),
                );
                None
            }
        };
        let misplaced = match (&name, self.peek().kind) {
            (Some(name), TokenKind::Char('(')) => self.misplaced_formals(&name.text),
            _ => Vec::new(),
        };
        let token = self.peek();
        let class = match token.kind {
            TokenKind::Char('{') => {
                let mut compound = self.compound();
                if let Some(body) = compound.bodies.first_mut().filter(|b| b.formals.is_empty()) {
                    body.formals = misplaced;
                }
                ClassRef::Compound(Box::new(compound))
            }
            TokenKind::Ident if name.is_some() => {
                self.next();
                ClassRef::Named(self.ident(token))
            }
            _ => {
                if let Some(name) = &name {
                    let label = format!("expected `{{` or the class that '{}' is to mean", name.text);
                    self.unexpected(token, &label);
                }
                return None;
            }
        };
        let name = name.unwrap_or(Ident { text: Text::default(), span: keyword.span });
        Some(ClassDef { name, class })
    }

    fn nested(&self) -> bool {
        self.depth > 0
    }

    /// Element lists joined by arrows. `follows_output`: the statement before ended in `output`, or there was none.
    fn chain(&mut self, follows_output: bool) -> Option<Chain> {
        let mut chain = Chain { sets: Vec::with_capacity(1), links: Vec::new(), spread: false };
        loop {
            let first = chain.sets.is_empty();
            let items = self.item_list(first, follows_output);
            let arrow = matches!(self.peek().kind, TokenKind::Arrow | TokenKind::DoubleArrow);
            if items.is_empty() {
                break;
            }
            let implicit = |item: &Item| matches!(item.what, What::Implicit { .. });
            if !first && arrow && items.iter().any(implicit) {
                let span = self.peek().span;
                self.error(
                    Diagnostic::error("E0305", "implicit ports used in the middle of a chain")
                        .at(span)
                        .label("the element before this arrow is missing"),
                );
            }
            chain.spread = first && !arrow && is_spread(&items);
            chain.sets.push(items);
            self.skip_stray();
            let token = self.peek();
            match token.kind {
                TokenKind::Char('-' | '>') => {
                    self.next();
                    self.unexpected(token, "expected `->`, `=>` or `;`");
                    self.accept(TokenKind::Char('>'));
                    chain.links.push(Link { double: false, span: token.span });
                }
                TokenKind::Arrow | TokenKind::DoubleArrow => {
                    self.next();
                    chain.links.push(Link { double: token.kind == TokenKind::DoubleArrow, span: token.span });
                }
                _ => {
                    self.end_of_chain(token);
                    break;
                }
            }
        }
        chain.links.truncate(chain.sets.len().saturating_sub(1));
        (!chain.sets.is_empty()).then_some(chain)
    }

    /// Skips `,` and `::` that stand where an arrow or the chain's end should be.
    fn skip_stray(&mut self) {
        while matches!(self.peek().kind, TokenKind::Char(',') | TokenKind::DoubleColon) {
            let token = self.next();
            self.unexpected(token, "expected `->`, `=>` or `;`");
        }
    }

    /// After a chain: what may follow without a semicolon stays, anything else is an error.
    fn end_of_chain(&mut self, token: Token) {
        match token.kind {
            TokenKind::Char(';') => {
                self.next();
            }
            TokenKind::Ident
            | TokenKind::End
            | TokenKind::Char('{' | '}' | '[' | ')')
            | TokenKind::DoubleBar
            | TokenKind::ElementClass
            | TokenKind::Require
            | TokenKind::Provide
            | TokenKind::Define => {}
            TokenKind::Char('(') => {
                self.next();
                self.unexpected(token, "the element before has its configuration, or cannot have one");
                self.config();
            }
            _ => {
                self.next();
                self.unexpected(token, "expected `->`, `=>` or `;`");
                self.skip_line();
            }
        }
    }

    fn item_list(&mut self, first: bool, follows_output: bool) -> Vec<Item> {
        // Nearly all lists have one item, and an item is large.
        let mut items = Vec::with_capacity(1);
        while let Some(item) = self.item(first, items.len(), follows_output) {
            items.push(item);
            if self.accept(TokenKind::Char(',')).is_none() {
                break;
            }
        }
        items
    }

    /// One element of a list, or `None` (with a message if that's wrong) where none stands.
    fn item(&mut self, first: bool, position: usize, follows_output: bool) -> Option<Item> {
        let inputs = self.ports().map(Box::new);
        let token = self.peek();
        let start = inputs.as_ref().map_or(token.span, |p| p.span);
        let what = match token.kind {
            TokenKind::Ident => {
                self.next();
                What::Name(self.ident(token))
            }
            TokenKind::Char('{') => What::Compound(Box::new(self.compound())),
            TokenKind::Char('(') => What::Group(self.group()),
            _ if self.is_implicit(token.kind, first, position, inputs.is_some()) => {
                return Some(self.implicit(inputs, first, follows_output, token));
            }
            _ => {
                self.missing_item(inputs, token, first, position);
                return None;
            }
        };
        let mut item = Item { inputs, what, class: None, config: None, outputs: None, span: start };
        let after = self.peek();
        let slip =
            matches!(after.kind, TokenKind::Char(':' | '=')) && self.peek_nth(1).kind == TokenKind::Ident;
        if slip {
            self.next();
            self.unexpected(after, "expected `::`");
        }
        if slip || self.accept(TokenKind::DoubleColon).is_some() {
            item.class = self.class_ref();
        }
        if self.accept(TokenKind::Char('(')).is_some() {
            item.config = Some(self.config());
        }
        item.outputs = self.ports().map(Box::new);
        let end = item.outputs.as_ref().map(|p| p.span).or(item.config.as_ref().map(|c| c.span));
        let class_end = match &item.class {
            Some(ClassRef::Named(name)) => name.span,
            _ => token.span,
        };
        item.span = start.to(end.unwrap_or(class_end));
        Some(item)
    }

    /// The class after `::`.
    fn class_ref(&mut self) -> Option<ClassRef> {
        let token = self.peek();
        match token.kind {
            TokenKind::Ident => {
                self.next();
                Some(ClassRef::Named(self.ident(token)))
            }
            TokenKind::Char('{') => Some(ClassRef::Compound(Box::new(self.compound()))),
            _ => {
                let label = format!("found {}", self.describe(token));
                self.error(
                    Diagnostic::error("E0106", "missing element type in declaration")
                        .at(token.span)
                        .label(label)
                        .help("write `name :: Class(arguments)`"),
                );
                None
            }
        }
    }

    /// Whether `input` or `output` may be meant where no element stands.
    fn is_implicit(&self, kind: TokenKind, first: bool, position: usize, has_ports: bool) -> bool {
        self.nested()
            && match kind {
                TokenKind::Arrow | TokenKind::DoubleArrow => first && (has_ports || position == 0),
                TokenKind::Char(',') => has_ports,
                TokenKind::DoubleColon => false,
                _ => !first && (has_ports || position == 0),
            }
    }

    /// `input` or `output`, left out. The ports written stand on its inner side.
    fn implicit(
        &mut self,
        ports: Option<Box<Ports>>,
        first: bool,
        follows_output: bool,
        token: Token,
    ) -> Item {
        if first && ports.is_none() && !follows_output && !self.follows_error(token) {
            let arrow = self.lexer.str(token.span).to_string();
            let advice = format!("suggest 'input {arrow}' or '[0] {arrow}' to start connection");
            self.error(
                Diagnostic::warning("W0102", advice)
                    .at(token.span)
                    .label("this reads as `input`, because a statement ended before it")
                    .help("if the chain before was meant to go on, remove the `;` there"),
            );
        }
        let span = ports.as_ref().map_or(Span { end: token.span.start, ..token.span }, |p| p.span);
        let (inputs, outputs) = if first { (None, ports) } else { (ports, None) };
        Item { inputs, what: What::Implicit { output: !first }, class: None, config: None, outputs, span }
    }

    /// Complains that an element is missing, where that is an error.
    fn missing_item(&mut self, inputs: Option<Box<Ports>>, token: Token, first: bool, position: usize) {
        if let Some(ports) = inputs {
            self.last_in_error = Some(ports.span.end);
            self.error(
                Diagnostic::error("E0304", "stranded port ignored")
                    .at(ports.span)
                    .label("no element follows these ports"),
            );
        } else if position == 0 && !(self.nested() && first) || position > 0 {
            // A token that ends the enclosing text stays for the caller that waits for it.
            if !matches!(token.kind, TokenKind::Char('}' | ')' | ';') | TokenKind::DoubleBar | TokenKind::End)
            {
                self.next();
            }
            self.unexpected(token, "expected an element");
        } else {
            self.next();
            self.unexpected(token, "expected an element");
        }
    }
}

/// What was probably meant by a token that has no meaning where it stands.
fn hint(kind: TokenKind) -> Option<&'static str> {
    match kind {
        TokenKind::Char('-' | '>') => Some("arrows are written `->`"),
        TokenKind::Char(':' | '=') => Some("elements are declared with `::`"),
        TokenKind::Char('#') => Some("comments start with `//`; `#` has a meaning only at a line's start"),
        TokenKind::Variable | TokenKind::Char('$') => {
            Some("variables are replaced in configuration strings only")
        }
        TokenKind::Char('"' | '\'') => Some("quoted strings stand in configuration strings only"),
        TokenKind::Char('.') => Some("handlers are called by `Script`, not in connections"),
        _ => None,
    }
}

/// Whether `a, b :: C(x)` stands alone, so that the class counts for all names.
fn is_spread(items: &[Item]) -> bool {
    let Some((last, bare)) = items.split_last() else { return false };
    let plain =
        |item: &Item| item.inputs.is_none() && item.outputs.is_none() && matches!(item.what, What::Name(_));
    !bare.is_empty()
        && last.class.is_some()
        && items.iter().all(plain)
        && bare.iter().all(|item| item.class.is_none() && item.config.is_none())
}

/// Whether a statement before this one leaves no chain that a bare arrow could be meant to continue.
fn output_ends(before: Option<&Stmt>) -> bool {
    let Some(Stmt::Chain(chain)) = before else { return true };
    match chain.sets.last().map(Vec::as_slice) {
        Some([item]) => match &item.what {
            What::Implicit { output } => *output,
            What::Name(name) => name.text == "output",
            _ => false,
        },
        _ => false,
    }
}
