# A whole loop kernel in assembly (x86-64, System V): tenon_status_t contract_negate(const tenon_loop_t *loop).
# It knows three offsets of tenon_loop_t, which contract 1 fixes: count 48, data 56; operands are dense floats.
  .text
  .globl contract_negate
  .hidden contract_negate
  .type contract_negate, @function
contract_negate:
  movq 48(%rdi), %rcx
  movq 56(%rdi), %rax
  movq (%rax), %rsi
  movq 8(%rax), %rdx
  xorl %edi, %edi
1:
  cmpq %rcx, %rdi
  jge 2f
  movl (%rsi,%rdi,4), %eax
  xorl $0x80000000, %eax
  movl %eax, (%rdx,%rdi,4)
  incq %rdi
  jmp 1b
2:
  xorl %eax, %eax
  ret
  .size contract_negate, .-contract_negate
  .section .note.GNU-stack, "", @progbits
