declare module "virtual:limits" {
  const limits: unknown;
  export default limits;
}
