// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port lists: `[0]`, `[0, 2]`, `[0-2]`, `[3-]`, `[]`.

use super::{MAX_PORTS, Parser};
use crate::ast::Ports;
use crate::diagnostic::Diagnostic;
use crate::lexer::{Token, TokenKind};

impl Parser<'_> {
    /// `[...]`, if it stands here.
    pub(super) fn ports(&mut self) -> Option<Ports> {
        let open = self.accept(TokenKind::Char('['))?;
        let mut ports = Ports { list: Vec::new(), expandable: false, span: open.span };
        loop {
            let token = self.peek();
            match token.kind {
                TokenKind::Ident if !self.lexer.str(token.span).starts_with(|c: char| c.is_ascii_digit()) => {
                    // Most likely the bracket was never closed, and this is the element behind it.
                    self.error(
                        Diagnostic::error("E0107", "syntax error: port number should be integer")
                            .at(token.span)
                            .label("expected a port number")
                            .note(open.span, "the ports start here"),
                    );
                    if self.peek_nth(1).kind == TokenKind::Char(']') {
                        self.next();
                        ports.span = ports.span.to(self.next().span);
                    }
                    break;
                }
                TokenKind::Ident => {
                    self.next();
                    let low = self.port_number(token);
                    ports.list.push(low);
                    if self.accept(TokenKind::Char('-')).is_some() {
                        self.port_range(&mut ports, low);
                    }
                }
                TokenKind::Char(']') => ports.expandable = true,
                _ => {
                    let label = format!("found {}", self.describe(token));
                    self.error(
                        Diagnostic::error("E0107", "syntax error: expected port number")
                            .at(token.span)
                            .label(label),
                    );
                    break;
                }
            }
            if let Some(close) = self.accept(TokenKind::Char(']')) {
                ports.span = ports.span.to(close.span);
                break;
            }
            if !ports.expandable && self.accept(TokenKind::Char(',')).is_some() {
                continue;
            }
            let token = self.peek();
            let label = format!("found {}", self.describe(token));
            self.error(Diagnostic::error("E0107", "syntax error: expected ','").at(token.span).label(label));
            if token.kind != TokenKind::Ident {
                break;
            }
        }
        if ports.list.is_empty() {
            ports.list.push(0);
        }
        Some(ports)
    }

    /// What follows `N-`: the range's last port, or nothing if the list is to go on as needed.
    fn port_range(&mut self, ports: &mut Ports, low: u32) {
        let Some(token) = self.accept(TokenKind::Ident) else {
            ports.expandable = true;
            return;
        };
        let high = self.port_number(token);
        if high < low {
            self.error(
                Diagnostic::error("E0107", format!("port range {low}-{high} runs backwards"))
                    .at(token.span)
                    .help(format!("write `{high}-{low}`")),
            );
            return;
        }
        ports.list.extend(low + 1..=high);
    }

    /// Port numbers are decimal, octal after `0`, or hexadecimal after `0x`, as all integers in Click.
    fn port_number(&mut self, token: Token) -> u32 {
        let text = self.lexer.str(token.span);
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16),
            None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8),
            None => text.parse(),
        };
        match number {
            Ok(n) if n < u64::from(MAX_PORTS) => n as u32,
            Ok(n) => {
                self.too_large(token, &n.to_string());
                0
            }
            Err(_) if text.bytes().all(|b| b.is_ascii_digit()) => {
                let text = text.to_string();
                self.too_large(token, &text);
                0
            }
            Err(_) => {
                self.error(
                    Diagnostic::error("E0107", "syntax error: port number should be integer").at(token.span),
                );
                0
            }
        }
    }

    fn too_large(&mut self, token: Token, number: &str) {
        self.error(
            Diagnostic::error("E0306", format!("port number {number} is too large"))
                .at(token.span)
                .label(format!("ports are numbered from 0 to {}", MAX_PORTS - 1)),
        );
    }
}
